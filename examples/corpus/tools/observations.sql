-- The weather observations of Harrow Point: one row every three hours.

CREATE TABLE observation (
    taken_at      TIMESTAMP PRIMARY KEY,      -- UTC
    observer      TEXT NOT NULL,
    pressure_hpa  NUMERIC(5, 1),              -- reduced to sea level; NULL where the reading was missed
    air_c         NUMERIC(4, 1),
    wet_bulb_c    NUMERIC(4, 1),
    wind_knots    INTEGER CHECK (wind_knots >= 0),
    gust_knots    INTEGER,
    cloud_eighths INTEGER CHECK (cloud_eighths BETWEEN 0 AND 9),   -- 9: the sky is hidden by fog
    rain_mm       NUMERIC(5, 1)
);

-- Where the pressure fell by more than three hectopascals in three hours: the observer must call the forecast office.
CREATE VIEW rapid_fall AS
SELECT taken_at, pressure_hpa, fall_hpa
FROM (
    SELECT
        taken_at,
        pressure_hpa,
        LAG(pressure_hpa) OVER (ORDER BY taken_at) - pressure_hpa AS fall_hpa
    FROM observation
) AS change
WHERE fall_hpa > 3.0;

-- Rain and the strongest gust of each month.
SELECT
    EXTRACT(YEAR FROM taken_at)  AS year,
    EXTRACT(MONTH FROM taken_at) AS month,
    SUM(rain_mm)                 AS rain_mm,
    MAX(gust_knots)              AS strongest_gust,
    COUNT(*) FILTER (WHERE pressure_hpa IS NULL) AS missed_readings
FROM observation
GROUP BY year, month
ORDER BY year, month;

-- How often fog hid the sky, by hour of the day.
SELECT EXTRACT(HOUR FROM taken_at) AS hour_utc, COUNT(*) AS foggy
FROM observation
WHERE cloud_eighths = 9
GROUP BY hour_utc
ORDER BY foggy DESC;

// Checks the rhythm of the light: two flashes every fifteen seconds.
// Feed it the times at which the photocell on the gallery saw the beam.

const PERIOD_S = 15;
const FLASHES_PER_PERIOD = 2;
const TOLERANCE_S = 0.4;

/** Groups flash times (in seconds) so that flashes closer than `gap` seconds belong together. */
function groups(times, gap = 5) {
  const found = [];
  for (const time of times) {
    const last = found[found.length - 1];
    if (last && time - last[last.length - 1] < gap) {
      last.push(time);
    } else {
      found.push([time]);
    }
  }
  return found;
}

/** What is wrong with the rhythm, as sentences for the log; an empty list when the light keeps time. */
function faults(times) {
  if (times.length === 0) {
    return ["no flash was seen: the lamp is out or the lens is covered"];
  }
  const seen = groups(times);
  const wrong = [];
  seen.forEach((group, index) => {
    if (group.length !== FLASHES_PER_PERIOD) {
      wrong.push(`group ${index + 1} has ${group.length} flashes instead of ${FLASHES_PER_PERIOD}`);
    }
    if (index > 0) {
      const period = group[0] - seen[index - 1][0];
      if (Math.abs(period - PERIOD_S) > TOLERANCE_S) {
        wrong.push(`the period before group ${index + 1} is ${period.toFixed(1)} s; the lens motor needs a look`);
      }
    }
  });
  return wrong;
}

module.exports = { groups, faults };

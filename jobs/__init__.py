"""The batch job: Ray wiring, models, configuration and the command line."""

"""Schedules: jobs and workflows that start at the times of a cron expression."""

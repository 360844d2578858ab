"""Main processes: sets of tasks that are queued together, executed and rescheduled by three heartbeats.

A task is an ordinary job and its row an ordinary step. This package adds what a queueing may do, when a task that
depends on another is complete, and what the reschedule beat clears.
"""

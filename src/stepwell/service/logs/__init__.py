"""Where the log goes and what a line of it looks like: the same in a command and in the processes of its slots.

formats    a record as a line of text or as a JSON object
handlers   stderr and files, whose failure never stops what is logged about
setup      connects the loggers of Stepwell and of the app with them
"""

from stepwell.service.logs.setup import LogOptions, log_records_of_app, set_up_logs

__all__ = ["LogOptions", "log_records_of_app", "set_up_logs"]

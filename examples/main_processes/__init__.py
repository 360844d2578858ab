"""Main processes of a shop, kept alive by cron or run by `stepwell up`: see `shop` and `processes.toml`.

stepwell up --app examples.main_processes.shop:app

or, each once a minute:

stepwell heartbeat queue --app examples.main_processes.shop:app
stepwell heartbeat execute --app examples.main_processes.shop:app
stepwell heartbeat reschedule --app examples.main_processes.shop:app

and to look at it:

stepwell processes --db sqlite:///main_processes.db
stepwell shares --db sqlite:///main_processes.db
"""

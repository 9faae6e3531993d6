"""The store on SQLite and MySQL, through peewee.

There is a module for each kind of rows, with a class of the operations on them; `store.py` combines these classes. The
guards are in the `WHERE`: a compare-and-set that matches no row returns False. Changes, above all those of a status,
are built in `contract/changes.py`, for these modules and for `memory/`.
"""

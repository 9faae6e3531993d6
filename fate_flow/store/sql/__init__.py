"""The store on SQLite and MySQL, through peewee.

A module for each thing that there are rows of, and in it a class with what a transaction does about them; `store.py`
makes one of all. Guards stand in the `WHERE`: a compare-and-set that matches no row answers False. Changes, above all
those of a status, are built in `contract/changes.py`, for these modules and for `memory/`.
"""

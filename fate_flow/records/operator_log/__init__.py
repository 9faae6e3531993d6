"""The log files that operators of FATE Flow read.

`events.py` has every line and its file. A line is written where the event happens: `unit.note(Event.NAME, ...)`.
"""

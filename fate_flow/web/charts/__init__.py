"""Metrics as charts and tables: read from the form in which they are kept, and laid out for SVG by this server.

The server draws, since a drawing then needs no script, is part of the page that the validators are about, can be
printed, and has text that a screen reader and a search find. Its styles are classes of the style sheet.
"""

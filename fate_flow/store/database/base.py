"""The base class of all models."""

from __future__ import annotations

from peewee import Model


class Base(Model):
    class Meta:
        legacy_table_names = False

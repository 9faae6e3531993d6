"""Applications whose routes are compiled once a process: werkzeug needs most of the time that an application takes.

An application gets the routing table of the first one with the very same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from flask import Flask
from werkzeug.routing import Map, Rule, RuleFactory


class _Given(Map):
    """Keeps the rules that an application adds, and compiles none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = options
        self._given: list[Rule] = []

    def add(self, rulefactory: RuleFactory) -> None:
        self._given += rulefactory.get_rules(self)

    def compiled(self) -> Map:
        settings = self._options | {"strict_slashes": self.strict_slashes, "merge_slashes": self.merge_slashes}
        key = (*settings.items(), *(_said_by(rule) for rule in self._given))
        if key not in _compiled:
            _compiled[key] = _Shared(self._given, **settings)
        return _compiled[key]


class _Shared(Map):
    """Takes no rule after the first ones: other applications have it too."""

    def __init__(self, rules: list[Rule], **settings: Any) -> None:
        super().__init__(rules, **settings)
        self._is_complete = True

    def add(self, rulefactory: RuleFactory) -> None:
        assert not hasattr(self, "_is_complete"), "a rule is added to the routes of all applications of this process"
        super().add(rulefactory)


_compiled: dict[tuple[Any, ...], Map] = {}


def with_routes_compiled_once(make: Callable[[], Flask]) -> Flask:
    """Return the application that `make` makes."""
    with patch.object(Flask, "url_map_class", _Given):
        app = make()
    assert isinstance(app.url_map, _Given)
    app.url_map = app.url_map.compiled()
    return app


def _said_by(rule: Rule) -> tuple[Any, ...]:
    """What it was made with."""
    others = rule.strict_slashes, rule.merge_slashes, rule.subdomain, rule.host, rule.build_only, rule.redirect_to
    return rule.rule, rule.endpoint, frozenset(rule.methods or ()), frozenset((rule.defaults or {}).items()), *others

"""A request to Kubernetes that has not succeeded."""

from __future__ import annotations

from fate_flow.core.text.phrases import sanitized


class ApiProblem(Exception):
    """`status`: that of HTTP; 0: no answer. `most`: characters of the text."""

    def __init__(self, status: int, text: str, most: int = 300) -> None:
        super().__init__(text)
        self.status = status
        self.text = sanitized(text, most)

    @property
    def is_final(self) -> bool:
        """Return whether the answer says no: the same request will not succeed a moment later."""
        return 400 <= self.status < 500 and self.status not in (401, 408, 429)

"""Build what sends the record to programs that collect logs, from the settings."""

from __future__ import annotations

from collections.abc import Callable

from fate_flow.core.model.errors import BadSettings
from fate_flow.records.export_state import ExportStates
from fate_flow.server.exporting.exporter import Exporter
from fate_flow.server.exporting.receiver import Receiver
from fate_flow.server.exporting.syslog import SyslogReceiver
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.server.tracing.headers import read_headers
from fate_flow.services.context.ports import Context
from fate_flow.settings.recording.exports import CollectorExport, RecordExport, SyslogExport, headers_key
from fate_flow.settings.settings import Settings


def check_exports(settings: Settings) -> None:
    """Raise BadSettings if an export needs what is not installed, or has a wrong file of headers."""
    for one in settings.recording.exports:
        if isinstance(one, CollectorExport):
            _receiver_class(one)
            read_headers(one.headers_file, headers_key(one))


def export_work(
    settings: Settings, context: Context, may_work: Callable[[], bool], close: Callable[[], None]
) -> tuple[PeriodicWork, ...]:
    """Return a thread for each export."""
    states = ExportStates(settings.shared)
    return tuple(
        Exporter(context, one.name, _receiver(one, settings.party_id), states, may_work, close)
        for one in settings.recording.exports
    )


def _receiver(export: RecordExport, own: str) -> Receiver:
    return SyslogReceiver(export, own) if isinstance(export, SyslogExport) else _receiver_class(export)(export, own)


def _receiver_class(export: CollectorExport) -> Callable[[CollectorExport, str], Receiver]:
    """Raise BadSettings if the SDK is not installed."""
    try:
        from fate_flow.server.exporting.collector_logs import CollectorReceiver
    except ImportError as error:
        raise BadSettings(
            f"record.exports.{export.name}.opentelemetry: is set, but {error.name} is missing, or of another release: "
            "install fate_flow[opentelemetry]"
        ) from error
    return CollectorReceiver

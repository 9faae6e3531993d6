"""Traces: the spans of each process, sent to a collector by OpenTelemetry."""

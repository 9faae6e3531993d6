"""What a job is and what happens next: dataclasses, enums and pure functions; no I/O of any kind."""

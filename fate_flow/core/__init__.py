"""What a job is and what happens to it next: dataclasses, enums and pure functions, without any I/O."""

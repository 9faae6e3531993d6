"""What clients of v1 read about jobs, tasks, the engine and output tables: FATE's fields, listed one by one."""

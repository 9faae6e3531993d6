"""The schema: numbered migrations, applied by `fate_flow db upgrade` (fate_flow/store/database/migrations.py)."""

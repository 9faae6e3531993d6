"""What tests share: values, fakes and worlds. A folder here serves the folder of that name in tests/unit; `servers` are
real ones, for tests/integration and tests/genuine. Nothing here imports a test."""

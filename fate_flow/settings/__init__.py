"""One frozen `Settings`, read once from `service_conf.yaml` and checked."""

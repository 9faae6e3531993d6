#!/usr/bin/env bash
# The server of one party: bin/service.sh start|stop|restart|status [-c CONF]
# CONF is FATE_FLOW_CONF by default, or conf/service_conf.yaml of this checkout; the work is done in fate_flow/cli/server/service.py.
set -euo pipefail
. "$(dirname -- "$(readlink -f -- "$0")")/_env.sh"
project_env
exec "$FATE_FLOW_PYTHON" -P -m fate_flow.cli.server.service "$@"

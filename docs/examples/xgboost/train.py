"""XGBoost's own federated learning: the guest runs its server; a worker at each party that has data trains with the others.

By rows, hosts have rows with the same columns. By columns, all parties have the same rows in the same order, and the
guest has what is to be predicted, too. XGBoost's server listens on all addresses of the machine: it takes nobody without
a certificate that the guest has made for this run and sent to the hosts, from server to server.
"""

import csv
import ipaddress
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import xgboost
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from xgboost.federated import run_federated_server

ROUNDS, PARAMETERS = int(os.environ["ROUNDS"]), json.loads(os.environ["PARAMETERS"])
BY_COLUMNS = os.environ["SPLIT"] == "columns"
GIVEN = ("server.crt", "client.crt", "client.key")
SERVE = "import sys, train; train.serve(int(sys.argv[1]), int(sys.argv[2]))"


def lead(gang) -> None:
    """Serve the workers until they have a model, and keep it."""
    own, _, port = os.environ["FATE_FLOW_LISTEN_FL"].partition(":")
    hosts = gang.ranks_of("host")
    certify("server", [own, *(gang.receive(rank).decode() for rank in hosts)])      # by what its clients call it
    certify("client", [])
    workers = len(hosts) + BY_COLUMNS
    server = subprocess.Popen([sys.executable, "-c", SERVE, str(workers), port])
    for number, rank in enumerate(hosts, BY_COLUMNS):
        files = {name: Path(name).read_text() for name in GIVEN}
        gang.send(rank, json.dumps({"number": number, "workers": workers, "files": files}).encode())
    if BY_COLUMNS:
        model = learn(f"{own}:{port}", 0, workers, has_label=True)
        for rank in hosts:
            gang.receive(rank)
    else:
        model, *others = [gang.receive(rank) for rank in hosts]
        if any(other != model for other in others):
            sys.exit("the hosts have different models")
    Path("model.json").write_bytes(model)
    server.terminate()


def serve(workers: int, port: int) -> None:
    run_federated_server(
        n_workers=workers, port=port, server_key_path="server.key", server_cert_path="server.crt",
        client_cert_path="client.crt",
    )  # fmt: skip


def certify(name: str, addresses: list[str]) -> None:
    """Write NAME.key and NAME.crt, which is its own authority."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=7)).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    )  # fmt: skip
    if names := [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]:
        made = made.add_extension(x509.SubjectAlternativeName(names), False)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    Path(f"{name}.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    Path(f"{name}.crt").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))


def follow(gang) -> None:
    """Train with the other parties, and tell the guest: by rows the model, which all hosts have."""
    address = os.environ["FATE_FLOW_PORT_FL"]
    [guest] = gang.ranks_of("guest")
    gang.send(guest, address.partition(":")[0].encode())
    given = json.loads(gang.receive(guest))
    for name in GIVEN:
        Path(name).write_text(given["files"][name])
    model = learn(address, given["number"], given["workers"], has_label=not BY_COLUMNS)
    gang.send(guest, b"done" if BY_COLUMNS else model)


def learn(address: str, number: int, workers: int, has_label: bool) -> bytes:
    with open(Path(os.environ["FATE_FLOW_VOLUME_ROWS"], "rows.csv"), newline="") as file:
        rows = np.array([[float(one) for one in row[1:]] for row in list(csv.reader(file))[1:]])
    x, y = (rows[:, :-1], rows[:, -1]) if has_label else (rows, None)
    with xgboost.collective.CommunicatorContext(
        dmlc_communicator="federated", federated_server_address=address, federated_world_size=workers,
        federated_rank=number, federated_server_cert_path="server.crt", federated_client_key_path="client.key",
        federated_client_cert_path="client.crt",
    ):  # fmt: skip
        split = xgboost.core.DataSplitMode.COL if BY_COLUMNS else xgboost.core.DataSplitMode.ROW
        data, measured = xgboost.DMatrix(x, y, data_split_mode=split), {}
        model = xgboost.train(PARAMETERS, data, ROUNDS, evals=[(data, "train")], evals_result=measured)
        print("logloss:", measured["train"]["logloss"][-1])
        return bytes(model.save_raw("json"))


def main() -> None:
    sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
    from fate_flow.components.gang import join

    (lead if os.environ["FATE_FLOW_ROLE"] == "guest" else follow)(join())


if __name__ == "__main__":
    main()

"""The requests to Kubernetes by its official client, whose answers become plain objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from fate_flow.core.model.errors import BadSettings
from fate_flow.engines.kubernetes.kueue import Manifest
from fate_flow.engines.kubernetes.problem import ApiProblem

_KUEUE = "kueue.x-k8s.io"
_MERGE = "application/merge-patch+json"          # releases of the client do not agree which kind they take
_GROUPS = "podgroups"
_MINOR = re.compile(r"[0-9]+")                    # a provider of clusters may write `29+`
_SECONDS = (5.0, 20.0)           # to connect, and to wait for an answer


class ClientApi:
    """`Api` of `cluster.py`."""

    def __init__(self, kubeconfig: Path | None, context: str) -> None:
        """Without `kubeconfig`, the service account of this pod is used. Raises BadSettings."""
        settings = client.Configuration()
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config(str(kubeconfig), context or None, client_configuration=settings)  # type: ignore[no-untyped-call]
        except (config.ConfigException, OSError, TypeError, ValueError) as error:
            where = f"kubeconfig: {kubeconfig}" if kubeconfig else "kubeconfig: is not set, and this is no pod"
            raise BadSettings(f"{where}: Kubernetes cannot be reached with it: {error}") from error
        settings.retries = False
        self._client = client.ApiClient(settings)
        self._batch, self._core = client.BatchV1Api(self._client), client.CoreV1Api(self._client)
        self._custom = client.CustomObjectsApi(self._client)
        self._patching = client.CustomObjectsApi(client.ApiClient(settings, "Content-Type", _MERGE))
        self._kueue_version = ""                 # that the cluster prefers; empty: not asked yet

    def create_job(self, namespace: str, job: Manifest) -> Manifest:
        return self._object(self._batch.create_namespaced_job, namespace, job)

    def read_job(self, namespace: str, name: str) -> Manifest:
        return self._object(self._batch.read_namespaced_job, name, namespace)

    def list_jobs(self, namespace: str, selector: str) -> Sequence[Manifest]:
        return self._items(self._batch.list_namespaced_job, namespace, selector)

    def list_pods(self, namespace: str, selector: str) -> Sequence[Manifest]:
        return self._items(self._core.list_namespaced_pod, namespace, selector)

    def delete_job(self, namespace: str, name: str) -> None:
        self._object(self._batch.delete_namespaced_job, name, namespace, propagation_policy="Background")

    def delete_pod(self, namespace: str, name: str) -> None:
        self._object(self._core.delete_namespaced_pod, name, namespace)

    def minor_version(self) -> int:
        """Return the second number of the release of the API server."""
        minor = str(self._object(client.VersionApi(self._client).get_code).get("minor"))
        found = _MINOR.match(minor)
        if found is None:
            raise ApiProblem(0, f"the API server says no release: {minor}")
        return int(found[0])

    def create_secret(self, namespace: str, secret: Manifest) -> None:
        self._object(self._core.create_namespaced_secret, namespace, secret)

    # ------------------------------------------------------------------ Kueue

    def list_workloads(self, namespace: str) -> Sequence[Manifest]:
        with self._kueue() as of:
            return self._listed(self._custom.list_namespaced_custom_object, *of, namespace, "workloads")

    def patch_workload_status(self, namespace: str, name: str, patch: Manifest) -> None:
        with self._kueue() as of:
            call = self._patching.patch_namespaced_custom_object_status
            self._object(call, *of, namespace, "workloads", name, patch)

    def read_check(self, name: str) -> Manifest:
        with self._kueue() as of:
            return self._object(self._custom.get_cluster_custom_object, *of, "admissionchecks", name)

    def patch_check_status(self, name: str, patch: Manifest) -> None:
        with self._kueue() as of:
            self._object(self._patching.patch_cluster_custom_object_status, *of, "admissionchecks", name, patch)

    @contextmanager
    def _kueue(self) -> Iterator[tuple[str, str]]:
        """Yield the group of Kueue, and the version of it that the cluster prefers. Raises ApiProblem.

        After a 404 the version is asked for again: an upgrade of Kueue may have taken it away."""
        try:
            yield self._of_kueue()
        except ApiProblem as problem:
            if problem.status == 404:
                self._kueue_version = ""
            raise

    def _of_kueue(self) -> tuple[str, str]:
        if not self._kueue_version:
            groups = self._object(client.ApisApi(self._client).get_api_versions).get("groups") or ()
            found = [one["preferredVersion"]["version"] for one in groups if one["name"] == _KUEUE]
            if not found:
                raise ApiProblem(404, "there is no Kueue")
            self._kueue_version = str(found[0])
        return _KUEUE, self._kueue_version

    # ------------------------------------------------------------------ PodGroups

    def offers_pod_groups(self, group: str, version: str) -> bool:
        try:
            found = self._object(self._custom.get_api_resources, group, version).get("resources") or ()
        except ApiProblem as problem:
            if problem.status in (403, 404):
                return False
            raise
        return any(one["name"] == _GROUPS for one in found)

    def may_keep_pod_groups(self, namespace: str, group: str) -> bool:
        return all(self._may(verb, namespace, group) for verb in ("create", "list", "delete"))

    def _may(self, verb: str, namespace: str, group: str) -> bool:
        asked = {"namespace": namespace, "group": group, "resource": _GROUPS, "verb": verb}
        answer = self._object(client.AuthorizationV1Api(self._client).create_self_subject_access_review, {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        })  # fmt: skip
        return (answer.get("status") or {}).get("allowed") is True

    def create_pod_group(self, namespace: str, group: str, version: str, manifest: Manifest) -> None:
        self._object(self._custom.create_namespaced_custom_object, group, version, namespace, _GROUPS, manifest)

    def list_pod_groups(self, namespace: str, group: str, version: str, selector: str) -> Sequence[Manifest]:
        call = self._custom.list_namespaced_custom_object
        return self._listed(call, group, version, namespace, _GROUPS, label_selector=selector)

    def delete_pod_group(self, namespace: str, group: str, version: str, name: str) -> None:
        self._object(self._custom.delete_namespaced_custom_object, group, version, namespace, _GROUPS, name)

    # ------------------------------------------------------------------ parts

    def _items(self, call: Callable[..., Any], namespace: str, selector: str) -> Sequence[Manifest]:
        return self._listed(call, namespace, label_selector=selector)

    def _listed(self, call: Callable[..., Any], *values: Any, **named: Any) -> Sequence[Manifest]:
        found = self._object(call, *values, **named).get("items")
        if not isinstance(found, list):      # of a proxy, say: read as an empty list, all workers would be lost
            raise ApiProblem(0, "the answer is no list")
        return found

    def _object(self, call: Callable[..., Any], *values: Any, **named: Any) -> Manifest:
        try:
            answer = call(*values, **named, _request_timeout=_SECONDS, _preload_content=False)
            found = json.loads(answer.data)
        except ApiException as error:
            raise ApiProblem(int(error.status or 0), _message(error)) from error
        except (HTTPError, OSError, ValueError) as error:
            raise ApiProblem(0, f"{type(error).__name__}: {error}") from error
        if not isinstance(found, dict):
            raise ApiProblem(0, "the answer is not an object")
        return found


def _message(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, TypeError, KeyError):
        return f"{error.status} {error.reason}"

"""What others deploy from: Kubernetes manifests, workflows, fuzzing and dashboards say what the programs do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from trimask_server.settings.config import STORE_URL_VARIABLE, load_config
from trimask_terminal import program

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NODES = {"provider": "right", "collector": "collector"}
PINNED = re.compile(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$")


def rendered(name: str) -> str:
    """A node's manifests as kustomize renders them."""
    program = next((found for found in ("kustomize", "kubectl") if shutil.which(found)), "")
    if not program:
        pytest.skip("neither kustomize nor kubectl is installed")
    verb = ["build"] if program == "kustomize" else ["kustomize"]
    done = subprocess.run(
        [program, *verb, str(KUBERNETES / name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> dict[tuple[str, str], Any]:
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}


@pytest.mark.parametrize("name", NODES)
def test_a_rendered_node_runs_the_program_confined(name: str, tmp_path: Path) -> None:
    found = objects(rendered(name))
    pod = found["StatefulSet", "trimask"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"--uid {pod['securityContext']['runAsUser']} " in (ROOT / "deploy" / "Dockerfile").read_text()
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod["containers"], *pod["initContainers"]):
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"]
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert confined["allowPrivilegeEscalation"] is False
        assert "memory" in container["resources"]["limits"]
        assert container["image"].endswith(f"/trimask-{name}:{(ROOT / 'VERSION').read_text().strip()}")
    (node,) = pod["containers"]
    # The settings are read by the program's own reader, and the arguments by its own parser.
    (settings,) = [item for (kind, _), item in found.items() if kind == "ConfigMap"]
    (tmp_path / "node.toml").write_text(settings["data"]["node.toml"])
    config = load_config(tmp_path / "node.toml", NODES[name])
    given = program.build_parser(node["args"][0]).parse_args(node["args"])
    assert (given.role, str(given.config)) == (NODES[name], "/etc/trimask/node.toml")
    assert "$(POD_NAME)." in given.worker_address
    ports = {port["name"]: f"0.0.0.0:{port['containerPort']}" for port in node["ports"]}
    listens = {"devices": config.listen, "peers": config.peer_listen, "http": config.http_listen}
    assert ports == listens | {"worker": given.worker_listen}
    probes = {kind: node[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz",
    }  # fmt: skip
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert STORE_URL_VARIABLE in {item["name"] for item in node["env"]}
    # Everything the node writes is a volume; what is not mounted is read-only.
    mounts = {mount["mountPath"] for mount in node["volumeMounts"] if not mount.get("readOnly")}
    keys = Path("/etc/trimask") / str(tomllib.loads((tmp_path / "node.toml").read_text())["keys"])
    assert mounts == {str(config.data), str(keys), str(keys / "moments"), "/tmp"}  # noqa: S108
    # Every worker that may run has a service of its own; strangers reach no other port than these.
    for number in range(found["StatefulSet", "trimask"]["spec"]["replicas"]):
        selector = found["Service", f"trimask-{number}"]["spec"]["selector"]
        assert selector["statefulset.kubernetes.io/pod-name"] == f"trimask-{number}"
    policy = found["NetworkPolicy", "trimask"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    anyone = [rule["ports"] for rule in policy["ingress"] if "from" not in rule]
    assert anyone == [[{"port": "devices"}]]


def test_the_pod_s_keys_are_a_node_s_keys(tmp_path: Path) -> None:
    """What the first container of a pod does, with a node's real folder: `trimask node doctor` finds nothing wrong."""
    keys, secrets = tmp_path / "made", tmp_path / "secrets"
    assert (
        program.main(
            ["node", "init", str(keys), "--name", "R2", "--dns", "r2.example.org", "--organisation", "A"]
        )
        == 0
    )
    secrets.mkdir()
    for path in (keys / "keys").iterdir():
        if path.is_file() and path.suffix != ".csr":
            shutil.copy(path, secrets / path.name)
            (secrets / path.name).chmod(0o440)  # as Kubernetes mounts them
    shutil.copy(keys / "keys" / "operator" / "tls.pem", secrets / "operator.pem")
    base = next(iter(yaml.safe_load_all((KUBERNETES / "base" / "node.yaml").read_text())))
    (script,) = base["spec"]["template"]["spec"]["initContainers"][0]["args"]
    there = tmp_path / "keys"
    there.mkdir()
    script = script.replace("/run/secrets/trimask", str(secrets)).replace("/etc/trimask/keys", str(there))
    subprocess.run(["sh", "-c", script], check=True)
    made = {path.relative_to(keys / "keys") for path in (keys / "keys").rglob("*") if path.is_file()}
    found = {path.relative_to(there) for path in there.rglob("*") if path.is_file()}
    assert found == {path for path in made if path.suffix != ".csr" and path != Path("operator/tls.key")}
    assert {path.stat().st_mode & 0o777 for path in there.rglob("*") if path.is_file()} == {0o600}


def test_every_action_is_named_by_its_commit() -> None:
    assert len(WORKFLOWS) >= 4
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}, path.name
        for job in workflow["jobs"].values():
            assert "timeout-minutes" in job or "environment" in job, path.name
            for step in job["steps"]:
                assert PINNED.match(step.get("uses", "a/b@" + "0" * 40)), (path.name, step)


def test_images_are_built_on_a_digest_and_signed() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE) == ["$BASE", "$BASE"]
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]["images"]
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert set(job["strategy"]["matrix"]["role"]) == set(NODES)
    for word in (
        '"BASE=$base@$digest"',
        "--provenance mode=max",
        "--sbom true",
        'cosign" sign --yes "$signed"',
    ):
        assert word in commands
    assert job["permissions"]["id-token"] == "write"


@pytest.mark.slow
def test_oss_fuzz_builds_every_target(tmp_path: Path) -> None:
    """The build's shell is sound, and what it writes runs a target as OSS-Fuzz does."""
    folder = ROOT / "tests" / "fuzz" / "oss_fuzz"
    assert yaml.safe_load((folder / "project.yaml").read_text())["language"] == "python"
    build = folder / "build.sh"
    subprocess.run(["bash", "-n", str(build)], check=True)
    line = re.search(r"printf '(.+?)' \"\$name\"", build.read_text())
    assert line is not None
    (tmp_path / "fuzz_link.py").write_text(line[1].encode().decode("unicode_escape") % "link")
    paths = re.search(r'export PYTHONPATH="(.+?)"', build.read_text())
    assert paths is not None
    environment = {
        "PYTHONPATH": ":".join(str(ROOT / part) for part in paths[1].split(":")),
        "PATH": "/usr/bin:/bin",
    }
    seeds = f"from trimask_fuzz.__main__ import write_seeds; write_seeds('link', '{tmp_path / 'seeds'}')"
    subprocess.run([sys.executable, "-c", seeds], check=True, env=environment, cwd=tmp_path)
    assert [*(tmp_path / "seeds").iterdir()]
    command = [sys.executable, str(tmp_path / "fuzz_link.py"), "-runs=50", str(tmp_path / "seeds")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Done 50 runs" in done.stderr


@pytest.mark.slow
def test_schemas(tmp_path: Path) -> None:
    """Everything above against its published schema; brings the schemas from the package index (110 MB unpacked)."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    tools = tmp_path / "venv" / "bin"
    wanted = ["check-jsonschema", "kubernetes-validate"]
    subprocess.run([str(tools / "pip"), "install", "--quiet", *wanted], check=True)
    for schema, paths in {
        "github-workflows": WORKFLOWS,
        "dependabot": [ROOT / ".github" / "dependabot.yml"],
        "compose-spec": [ROOT / "deploy" / "compose.yaml"],
    }.items():
        command = [str(tools / "check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    for name in NODES:
        (tmp_path / f"{name}.yaml").write_text(rendered(name))
        command = [str(tools / "kubernetes-validate"), "--strict", str(tmp_path / f"{name}.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

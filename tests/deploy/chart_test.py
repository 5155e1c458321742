"""The Helm chart: linted, rendered and packaged by Helm itself, and every object compared with the schemas of Kubernetes and of the custom resources.

    chart_test.py BUILD/bin [unittest arguments]
"""

import functools
import hashlib
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)
import tools  # noqa: E402

HELM = ROOT / "deploy/helm"
CHART = HELM / "longhaul"
SITES = sorted((HELM / "values").glob("*.yaml"))
VERSION = (ROOT / "VERSION").read_text().strip()
IDS = {"runAsUser", "runAsGroup", "fsGroup"}
# What every chart lets users set of a pod.
POD_VALUES = """
podAnnotations: {seen: "yes"}
podLabels: {team: research}
extraArgs: [--log-level=debug]
extraEnv: [{name: EXTRA, value: "{{ .Release.Name }}"}]
extraEnvFrom: [{secretRef: {name: more}}]
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
initContainers: [{name: first, image: busybox}]
extraContainers: [{name: beside, image: busybox}]
nodeSelector: {disk: fast}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]
priorityClassName: high
runtimeClassName: nvidia
schedulerName: other
dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.1]}
hostAliases: [{ip: 192.0.2.2, hostnames: [a.example.org]}]
image: registry.example.org/longhaul@sha256:aaaa
"""


def python_with_helm():
    return tools.environment(ROOT / "deploy/release/requirements.txt")


@functools.lru_cache(maxsize=None)
def rendered_by_helm(chart, request):
    command = [python_with_helm(), "-B", pathlib.Path(__file__).with_name("render_chart.py"), chart]
    return subprocess.run(command, input=request, capture_output=True, text=True, check=False)


def try_render(values="", chart=CHART, **release):
    """(what Helm renders, or None; what it says)"""
    result = rendered_by_helm(chart, json.dumps({"name": "longhaul", "namespace": "ml", "values": values, **release}))
    return (json.loads(result.stdout) if result.returncode == 0 else None), result.stderr


def python_with_schemas():
    return tools.environment(pathlib.Path(__file__).with_name("requirements.txt"))


@functools.lru_cache(maxsize=None)
def validate(text):
    """Prints the objects as JSON, and what is wrong with them."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as manifests:
        manifests.write(text)
        manifests.flush()
        command = [python_with_schemas(), "-B", pathlib.Path(__file__).with_name("validate_manifests.py"), manifests.name]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def parse(text):
    script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
    parsed = subprocess.run([python_with_schemas(), "-c", script], input=text, capture_output=True, text=True, check=True).stdout
    return [part for part in json.loads(parsed) if part]


class ChartTest(unittest.TestCase):
    def render(self, values="", **release):
        """The manifests as text."""
        rendered, said = try_render(values, **release)
        self.assertIsNotNone(rendered, said)
        return "\n---\n".join(text for path, text in sorted(rendered.items()) if not path.endswith("NOTES.txt"))

    def objects(self, values="", **release):
        """(kind, name) -> object; all of them are what Kubernetes takes."""
        checked = validate(self.render(values, **release))
        self.assertEqual(checked.returncode, 0, checked.stderr)
        found = {(item["kind"], item["metadata"]["name"]): item for item in json.loads(checked.stdout)}
        for kind, name in found:
            self.assertLessEqual(len(name), 63, kind)
        return found

    def refused(self, values, *words, **release):
        rendered, said = try_render(values, **release)
        self.assertIsNone(rendered, values)
        for each in words:
            self.assertIn(each, said)

    # --- what is rendered -----------------------------------------------------------------------------------------

    def test_every_object_of_every_site_is_one_of_kubernetes(self):
        self.assertGreaterEqual(len(SITES), 5)
        kinds = set()
        for path in SITES:
            with self.subTest(path.name):
                kinds |= {kind for kind, _ in self.objects(path.read_text())}
        self.assertEqual(kinds, {"Certificate", "ConfigMap", "JobSet", "NetworkPolicy", "Pod", "PodDisruptionBudget", "PrometheusRule", "Service",
                                 "ServiceAccount", "ServiceMonitor", "StatefulSet"})

    def test_the_check_finds_wrong_objects(self):
        text = self.render((HELM / "values/queued-pool.yaml").read_text()) + "\n---\n" + self.render("insecure: true")
        for right, wrong, words in (("replicas: 1\n  serviceName", "replicas: two\n  serviceName", "'two' is not of type 'integer'"), ("fsGroup:", "fsGruppe:", "'fsGruppe' was unexpected"),
                                    ("completionMode:", "completionMood:", "'completionMood' was unexpected"), ("parallelism: 2", "parallelism: two", "'two' is not of type 'integer'"),
                                    ("kind: NetworkPolicy", "kind: NetworkPolicies", "NetworkPolicies")):
            self.assertIn(right, text)
            result = validate(text.replace(right, wrong))
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)

    def test_nothing_is_open_by_default(self):
        self.refused("", "the coordinator has no certificate", "tls.coordinatorSecret", "tls.certManager.issuer.name", "insecure: true")
        self.refused("coordinator: {enabled: false}\npool: {coordinator: 'a.example.org:7070'}", "the pool has no certificate", "tls.poolSecret")
        self.refused("tls: {coordinatorSecret: a}", "the pool has no certificate")
        self.refused("tls: {coordinatorSecret: a}\ninsecure: true", "so both need a certificate")
        found = self.objects("tls: {coordinatorSecret: a, poolSecret: b}")
        for component, port in (("coordinator", 7071), ("pool", 7072)):
            pod = found["StatefulSet", f"longhaul-{component}"]["spec"]["template"]["spec"]
            [container] = pod["containers"]
            env = {item["name"]: item.get("value") for item in container["env"]}
            # Without tokens nobody from outside reads metrics or the status page.
            self.assertEqual(env["LONGHAUL_HTTP_LISTEN"], f"127.0.0.1:{port}")
            self.assertEqual(container["readinessProbe"]["exec"]["command"], ["healthcheck", "/readyz"])
            self.assertNotIn("LONGHAUL_INSECURE", env)
            self.assertEqual(env["LONGHAUL_TLS_KEY"], "/tls/tls.key")
        # Nor does anybody reach a port, but the pool and the test of this release.
        [rule] = found["NetworkPolicy", "longhaul-coordinator"]["spec"]["ingress"]
        self.assertEqual([peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in rule["from"]], ["pool", "test"])
        [rule] = found["NetworkPolicy", "longhaul-pool"]["spec"]["ingress"]
        self.assertEqual([peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in rule["from"]], ["pool"])

    def test_network_policies_are_closed(self):
        for path in [*SITES, None]:
            found = self.objects(path.read_text() if path else "insecure: true")
            pods = [item for (kind, _), item in found.items() if kind in ("StatefulSet", "JobSet")]
            policies = [item["spec"] for (kind, _), item in found.items() if kind == "NetworkPolicy"]
            self.assertEqual(len(policies), len(pods))
            for policy in policies:
                self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
                for rule in policy["ingress"]:
                    self.assertTrue(rule["from"], rule)
                # An empty list is not stored: the next comparison with the cluster would find a change.
                self.assertNotEqual(policy.get("egress"), [])
                for rule in policy.get("egress", []):
                    self.assertTrue(rule.get("to") or rule.get("ports"), rule)
        # A coordinator elsewhere, behind a proxy.
        site = self.objects((HELM / "values/gpu-pool.yaml").read_text() + "\n", revision=2)["NetworkPolicy", "longhaul-pool"]["spec"]["egress"]
        self.assertIn({"ports": [{"port": 7070, "protocol": "TCP"}]}, site)
        more = "tls: {poolSecret: b}\ncoordinator: {enabled: false}\npool: {coordinator: 'a:443'}\nnetworkPolicy: {egress: [{to: [{ipBlock: {cidr: 192.0.2.1/32}}], ports: [{port: 3128}]}]}"
        self.assertIn({"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}], "ports": [{"port": 3128}]},
                      self.objects(more)["NetworkPolicy", "longhaul-pool"]["spec"]["egress"])
        self.refused("tls: {coordinatorSecret: a, poolSecret: b}\ncoordinator: {service: {type: LoadBalancer}}", "networkPolicy.clients", "ipBlock")

    def test_an_explicit_word_opens_it(self):
        found = self.objects("insecure: true")
        for component in ("coordinator", "pool"):
            [container] = found["StatefulSet", f"longhaul-{component}"]["spec"]["template"]["spec"]["containers"]
            env = {item["name"]: item.get("value") for item in container["env"]}
            self.assertEqual(env["LONGHAUL_INSECURE"], "true")
            self.assertNotIn("LONGHAUL_TLS_CA", env)
            self.assertEqual(container["livenessProbe"]["httpGet"], {"path": "/healthz", "port": "http"})

    def test_users_and_groups_may_be_left_to_the_platform(self):
        for values, release, expected in (("insecure: true", {}, IDS), ("insecure: true\nsecurityContext: {fixedIds: false}", {}, set()),
                                          ("insecure: true", {"api_versions": ["security.openshift.io/v1"]}, set()),
                                          ("insecure: true\nsecurityContext: {fixedIds: false, pod: {fsGroup: 2000}}", {}, {"fsGroup"})):
            found = self.objects(values, **release)
            for pod in [found["Pod", "longhaul-test"]["spec"], *(item["spec"]["template"]["spec"] for (kind, _), item in found.items() if kind == "StatefulSet")]:
                self.assertEqual(IDS & set(pod["securityContext"]), expected)
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertFalse(pod["automountServiceAccountToken"])
                for container in pod["containers"]:
                    self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
                    self.assertIn("limits", container["resources"])

    def test_services_have_both_families(self):
        for values, families in (("", None), ("ipFamilies: [IPv6, IPv4]\nipFamilyPolicy: RequireDualStack\n", ["IPv6", "IPv4"])):
            services = [item["spec"] for (kind, _), item in self.objects(f"insecure: true\n{values}").items() if kind == "Service"]
            self.assertEqual(len(services), 3)
            for service in services:
                self.assertEqual((service["ipFamilyPolicy"], service.get("ipFamilies")), ("RequireDualStack" if families else "PreferDualStack", families))
        self.refused("insecure: true\nipFamilies: [IPv5]", "/ipFamilies/0")

    def test_values_that_every_chart_has(self):
        values = "\n".join(f"{component}:\n" + "".join(f"  {line}\n" for line in POD_VALUES.strip().splitlines()) for component in ("coordinator", "pool"))
        found = self.objects(f"""insecure: true
image: {{pullSecrets: [one, {{name: two}}]}}
commonLabels: {{cost: a}}
commonAnnotations: {{owner: b}}
serviceAccount: {{name: mine, annotations: {{role: c}}}}
fullnameOverride: training
extraObjects: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: more}}}}, "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: '{{{{ .Release.Name }}}}-text'}}}}"]
{values}""")
        self.assertLessEqual({("ConfigMap", "more"), ("ConfigMap", "longhaul-text"), ("ServiceAccount", "mine")}, set(found))
        for component in ("coordinator", "pool"):
            item = found["StatefulSet", f"training-{component}"]
            self.assertEqual((item["metadata"]["labels"]["cost"], item["metadata"]["annotations"]["owner"]), ("a", "b"))
            template = item["spec"]["template"]
            self.assertEqual((template["metadata"]["labels"]["team"], template["metadata"]["labels"]["cost"]), ("research", "a"))
            self.assertEqual(template["metadata"]["annotations"], {"seen": "yes", "owner": "b"})
            pod = template["spec"]
            for name in ("nodeSelector", "tolerations", "topologySpreadConstraints", "priorityClassName", "runtimeClassName", "schedulerName", "dnsPolicy", "dnsConfig", "hostAliases"):
                self.assertTrue(pod[name], name)
            self.assertEqual(list(pod["affinity"]), ["nodeAffinity"])
            self.assertEqual(pod["serviceAccountName"], "mine")
            self.assertEqual(pod["imagePullSecrets"], [{"name": "one"}, {"name": "two"}])
            self.assertEqual(pod["initContainers"][0]["name"], "first")
            container, beside = pod["containers"]
            self.assertEqual(beside["name"], "beside")
            self.assertEqual(container["image"], "registry.example.org/longhaul@sha256:aaaa")
            self.assertEqual(container["args"][-1], "--log-level=debug")
            self.assertIn({"name": "EXTRA", "value": "longhaul"}, container["env"])
            self.assertEqual(container["envFrom"], [{"secretRef": {"name": "more"}}])
            self.assertIn({"name": "more", "mountPath": "/more"}, container["volumeMounts"])
            self.assertIn({"name": "more", "emptyDir": {}}, pod["volumes"])
        plain = self.objects("insecure: true\nserviceAccount: {create: false}\ncoordinator: {volume: {existingClaim: mine}}\npool: {hostNetwork: true, nodes: 2, shmSize: 8Gi, state: {enabled: true, existingClaim: all}}")
        self.assertEqual([key for key in plain if key[0] == "ServiceAccount"], [])
        coordinator, pool = (plain["StatefulSet", f"longhaul-{component}"]["spec"] for component in ("coordinator", "pool"))
        self.assertEqual(coordinator["template"]["spec"]["serviceAccountName"], "default")
        for item, claim in ((coordinator, "mine"), (pool, "all")):
            self.assertNotIn("volumeClaimTemplates", item)
            self.assertIn(claim, [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in item["template"]["spec"]["volumes"]])
        pod = pool["template"]["spec"]
        self.assertEqual((pod["hostNetwork"], pod["dnsPolicy"]), (True, "ClusterFirstWithHostNet"))
        self.assertIn("metadata.labels['apps.kubernetes.io/pod-index']", json.dumps(pod))
        self.assertIn({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}, pod["volumes"])

    def test_drains_are_not_blocked(self):
        for path in SITES:
            for (kind, _), item in self.objects(path.read_text()).items():
                if kind == "PodDisruptionBudget":
                    self.assertEqual((item["spec"]["maxUnavailable"], item["spec"]["unhealthyPodEvictionPolicy"]), (1, "AlwaysAllow"))
        none = self.objects("insecure: true\ncoordinator: {podDisruptionBudget: {enabled: false}}\npool: {podDisruptionBudget: {enabled: false}}")
        self.assertNotIn("PodDisruptionBudget", {kind for kind, _ in none})
        # Kubernetes knows no size of a JobSet's pods: a budget would block drains.
        self.assertNotIn("PodDisruptionBudget", {kind for kind, _ in self.objects((HELM / "values/queued-pool.yaml").read_text())})

    def test_cert_manager_makes_the_certificates(self):
        found = self.objects((HELM / "values/cert-manager.yaml").read_text())
        coordinator, pool = (found["Certificate", f"longhaul-{name}"]["spec"] for name in ("coordinator", "pool"))
        # A pool's certificate has its name as the first; the coordinator's is for none.
        self.assertEqual(pool["dnsNames"], ["longhaul"])
        self.assertIn("client auth", pool["usages"])
        self.assertIn(".", coordinator["dnsNames"][0])
        self.assertNotIn("client auth", coordinator["usages"])
        self.assertLessEqual({"longhaul-coordinator", "longhaul-coordinator.ml.svc", "longhaul.example.org", "localhost"}, set(coordinator["dnsNames"]))
        self.assertEqual(coordinator["ipAddresses"], ["192.0.2.7"])
        for component, certificate in (("coordinator", coordinator), ("pool", pool)):
            mounted = found["StatefulSet", f"longhaul-{component}"]["spec"]["template"]["spec"]["volumes"]
            self.assertIn(certificate["secretName"], [volume.get("secret", {}).get("secretName") for volume in mounted])
            self.assertEqual(certificate["issuerRef"], {"name": "longhaul-ca", "kind": "ClusterIssuer", "group": "cert-manager.io"})
        mixed = self.objects("tls: {coordinatorSecret: mine, certManager: {issuer: {name: ca}}}")
        self.assertEqual([name for kind, name in mixed if kind == "Certificate"], ["longhaul-pool"])

    def test_a_pool_that_ends(self):
        values = (HELM / "values/queued-pool.yaml").read_text()
        found = self.objects(values, revision=3)
        jobs = found["JobSet", "longhaul-pool-3"]
        self.assertEqual(jobs["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "training")
        [job] = [job["template"]["spec"] for job in jobs["spec"]["replicatedJobs"]]
        self.assertEqual((job["completionMode"], job["completions"], job["parallelism"]), ("Indexed", 2, 2))
        pod = job["template"]["spec"]
        self.assertEqual(pod["restartPolicy"], "OnFailure")
        [container] = pod["containers"]
        self.assertIn("--exit-when-idle=10m", container["args"])
        self.assertEqual(container["resources"]["limits"]["nvidia.com/gpu"], "4")
        [node] = [item for item in container["env"] if item["name"] == "LONGHAUL_NODE"]
        self.assertEqual(node["valueFrom"]["fieldRef"]["fieldPath"], "metadata.annotations['batch.kubernetes.io/job-completion-index']")
        self.assertIn(("JobSet", "longhaul-pool-again"), self.objects(values.replace("queue: training", "run: again"), revision=3))
        # A StatefulSet stays.
        stays = self.objects(values.replace("kind: JobSet", "kind: StatefulSet"))["StatefulSet", "longhaul-pool"]
        self.assertEqual(stays["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "training")
        self.assertNotIn("exit-when-idle", json.dumps(stays))
        self.refused(values.replace(", existingClaim: longhaul-state", ""), "pool.state.existingClaim")
        self.refused("insecure: true\npool: {run: again}", "pool.run is of pool.kind: JobSet")
        self.refused("insecure: true\npool: {kind: Deployment}", "/pool/kind")

    def test_an_evicted_pod_of_a_pool_that_ends_is_not_done(self):
        """The container's own command, with a worker that ends with 0 when it is asked to, as the real one does."""
        found = self.objects((HELM / "values/queued-pool.yaml").read_text())["JobSet", "longhaul-pool-1"]
        [container] = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["command"][:2], ["/usr/bin/tini", "--"])
        with tempfile.TemporaryDirectory() as folder:
            worker = pathlib.Path(folder, "longhaul-worker")
            worker.write_text("#!/bin/bash\ntrap 'sleep 0.3; echo drained; exit 0' TERM\necho started $*\n"
                              "[ $1 != --idle ] || exit 0\n[ $1 != --fails ] || exit 3\nfor i in $(seq 600); do sleep 0.1; done\n")
            worker.chmod(0o755)
            for argument, evicted, status, last in (("--idle", False, 0, "started --idle"), ("--fails", False, 3, "started --fails"), ("--trains", True, 143, "drained")):
                process = subprocess.Popen([*container["command"][2:], argument], env={"PATH": f"{folder}:{os.environ['PATH']}"}, stdout=subprocess.PIPE, text=True)
                guard = threading.Timer(60, process.kill)
                guard.start()
                lines = [process.stdout.readline()]
                if evicted:
                    process.send_signal(signal.SIGTERM)
                lines += process.stdout.readlines()
                self.assertEqual(process.wait(), status, argument)
                guard.cancel()
                process.stdout.close()
                self.assertEqual(lines[-1].strip(), last)

    def test_a_pool_with_a_volume_keeps_its_tokens_there(self):
        kept = self.render("insecure: true\npool: {state: {enabled: true}}")
        self.assertIn("{name: LONGHAUL_WORK_DIR, value: /state/work}", kept)
        self.assertIn("{name: state, mountPath: /state}", kept)
        self.assertNotIn("LONGHAUL_WORK_DIR", self.render("insecure: true"))

    def test_tokens_need_tls_and_keep_prometheus_out_without_one(self):
        self.refused("insecure: true\ntokens: {secret: longhaul-tokens}", "tokens.secret needs tls.coordinatorSecret")
        tls = "tls: {coordinatorSecret: a, poolSecret: b}\n"
        self.refused(tls + "monitoring: {serviceMonitor: true}", "set tokens.secret and monitoring.tokenSecret")
        self.refused(tls + "tokens: {secret: t}\nmonitoring: {serviceMonitor: true}", "set monitoring.tokenSecret")
        self.refused(tls + "tokens: {secret: t}\nmonitoring: {serviceMonitor: true, tokenSecret: p}", "lets no Prometheus in")
        found = self.objects((HELM / "values/coordinator-site.yaml").read_text())
        [container] = found["StatefulSet", "longhaul-coordinator"]["spec"]["template"]["spec"]["containers"]
        env = {item["name"]: item.get("value") for item in container["env"]}
        self.assertEqual((env["LONGHAUL_TOKENS"], env["LONGHAUL_HTTP_LISTEN"], env["LONGHAUL_HTTP_TLS"], env["LONGHAUL_TLS_CRL"]),
                         ("/tokens/tokens", "[::]:7071", "true", "/crl/ca.crl"))
        self.assertNotIn("LONGHAUL_INSECURE", env)
        [endpoint] = found["ServiceMonitor", "longhaul-coordinator"]["spec"]["endpoints"]
        self.assertEqual(endpoint["authorization"]["credentials"]["name"], "longhaul-prometheus")
        self.assertEqual(endpoint["tlsConfig"]["serverName"], "longhaul.example.org")

    def test_alerts_and_dashboards_are_those_of_the_tree(self):
        found = self.objects((HELM / "values/coordinator-site.yaml").read_text())
        rule = found["PrometheusRule", "longhaul"]
        self.assertEqual(rule["metadata"]["labels"]["release"], "prometheus")
        [own] = parse((ROOT / "deploy/prometheus/rules/longhaul.yaml").read_text())
        self.assertEqual(rule["spec"], own)
        boards = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
        for path in boards:
            item = found["ConfigMap", f"longhaul-dashboard-{path.stem}"]
            self.assertEqual(item["metadata"]["labels"]["grafana_dashboard"], "1")
            self.assertEqual(json.loads(item["data"][path.name]), json.loads(path.read_text()))
        self.assertEqual(len([kind for kind, _ in found if kind == "ConfigMap"]), len(boards))
        moved = self.objects("insecure: true\nmonitoring: {prometheusRule: true, runbookUrl: 'https://wiki.example.org/runbook'}")["PrometheusRule", "longhaul"]
        for group in moved["spec"]["groups"]:
            for alert in group["rules"]:
                self.assertEqual(alert["annotations"]["runbook_url"], f"https://wiki.example.org/runbook#{alert['alert'].lower()}")

    def test_the_values_of_a_site_kit(self):
        values = (ROOT / "deploy/kit/values.yaml").read_text().replace("@POOL@", "site-b").replace("@COORDINATOR@", "train.example.org:443")
        found = self.objects(values, name="site-b")
        [container] = found["StatefulSet", "site-b-longhaul-pool"]["spec"]["template"]["spec"]["containers"]
        env = {item["name"]: item.get("value") for item in container["env"]}
        self.assertEqual((env["LONGHAUL_POOL"], env["LONGHAUL_COORDINATOR"]), ("site-b", "train.example.org:443"))
        self.assertIn({"ports": [{"port": 443, "protocol": "TCP"}]}, found["NetworkPolicy", "site-b-longhaul-pool"]["spec"]["egress"])

    # --- what is refused, and said ----------------------------------------------------------------------------------

    def test_values_out_of_the_schema_are_refused(self):
        for text, words in (("pool: {nodes: 0, rnaks: 2}", ["/pool/nodes", "rnaks"]), ("pool: {device: tpu}", ["/pool/device", "cpu"]), ("coordinator: {lease: ten}", ["/coordinator/lease"]),
                            ("coordinator: yes", ["/coordinator"]), ("coordinatr: {}", ["coordinatr"]), ("networkPolicy: {clients: [{}]}", ["/networkPolicy/clients/0"]),
                            ("pool: {extraEnv: [{value: x}]}", ["/pool/extraEnv/0"]), ("tls: {certManager: {isuer: x}}", ["isuer"])):
            self.refused(f"insecure: true\n{text}", *words)

    def test_a_pool_without_a_coordinator_is_refused(self):
        self.refused("insecure: true\ncoordinator: {enabled: false}", "pool.coordinator: HOST:PORT is required")

    def test_every_value_is_in_the_schema_and_every_site_uses_known_ones(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        [values] = parse((CHART / "values.yaml").read_text())

        def compare(value, described, path):
            if "properties" in described:
                self.assertEqual(set(value), set(described["properties"]) - {"global", "claims"} if path else set(described["properties"]) - {"global"}, path)
                self.assertFalse(described["additionalProperties"], path)
                for name, part in value.items():
                    compare(part, described["properties"][name], f"{path}.{name}")

        compare(values, schema, "")

    def test_notes_say_what_to_do_next(self):
        for path in SITES:
            notes = try_render(path.read_text())[0]["longhaul/templates/NOTES.txt"]
            self.assertEqual("INSECURE" in notes, path.name == "private.yaml", path.name)
            self.assertEqual("port-forward" in notes, "pool.yaml" not in path.name, path.name)
            self.assertEqual("helm upgrade --reuse-values longhaul" in notes, path.name == "queued-pool.yaml", path.name)
            self.assertNotIn("<no value>", notes)

    def test_the_readme_names_what_is_there(self):
        text = (CHART / "README.md").read_text()
        self.assertEqual(sorted(re.findall(r"^\| `([\w-]+\.yaml)` \|", text, re.MULTILINE)), [path.name for path in SITES])
        [values] = parse((CHART / "values.yaml").read_text())
        for name in set(re.findall(r"`((?:tls|pool|coordinator|monitoring|networkPolicy|securityContext|tokens)\.(?!crt|key)[\w.]+?)(?::[^`]*)?`", text)):
            part = values
            for word in name.split("."):
                self.assertIn(word, part, name)
                part = part[word]
        self.assertIn(f"--version {VERSION}", text)
        versions = json.dumps(sorted(json.loads(path.read_text())["of"] for path in pathlib.Path(__file__).with_name("crds").glob("*.json")))
        for name, version in (("jobset", "JobSet 0.13"), ("cert-manager", "cert-manager 1.21"), ("prometheus-operator", "Prometheus operator 0.93")):
            self.assertIn(version, text)
            self.assertIn(f"{name} {version.split()[-1]}", versions)

    # --- names of the tree, and the package -----------------------------------------------------------------------

    def test_programs_know_every_flag_and_variable(self):
        templates = CHART / "templates"
        for name, files in (("worker", ("_pool.tpl", "_helpers.tpl")), ("coordinator", ("coordinator.yaml", "_helpers.tpl"))):
            known = subprocess.run([cluster.BIN / f"longhaul-{name}", "--help"], capture_output=True, text=True, check=True).stdout
            text = "".join((templates / file).read_text() for file in files)
            flags = re.findall(r"(?:- |\[)(--[a-z-]+)", text)
            self.assertGreater(len(flags), 1)
            for flag in flags:
                self.assertRegex(known, rf"{flag}\b")
            variables = re.findall(r"LONGHAUL_[A-Z_]+", text)
            self.assertGreater(len(variables), 4)
            for variable in variables:
                self.assertIn(variable, known)

    def test_programs_start_with_what_the_chart_gives_them(self):
        """With certificates alone, with tokens, and in a private network: coordinator and pool as their pods start them, and the pool joins."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            longhaul = [cluster.BIN / "longhaul", "certs", "--dir", folder / "ca"]
            for words in (["init"], ["issue", "coordinator", "localhost"], ["issue", "pool", "site-a"], ["issue", "user", "me"]):
                subprocess.run([*longhaul, *words], check=True, capture_output=True)
            (folder / "tokens").mkdir()
            subprocess.run([cluster.BIN / "longhaul", "tokens", "add", "me", "viewer", "--tokens", folder / "tokens/tokens"], cwd=folder, check=True, capture_output=True)
            for name, certificate in (("coordinator", "localhost"), ("pool", "site-a")):
                (folder / name).mkdir()
                for file, source in (("ca.crt", "ca.pem"), ("tls.crt", f"{certificate}.pem"), ("tls.key", f"{certificate}.key")):
                    (folder / name / file).write_bytes((folder / "ca" / source).read_bytes())
                    (folder / name / file).chmod(0o600)
            tls = "tls: {coordinatorSecret: a, poolSecret: b}\npool: {name: site-a}\n"
            for values in (tls, tls + "tokens: {secret: t}", "insecure: true\npool: {name: site-a}"):
                with self.subTest(values):
                    self.start_both(folder, self.objects(values), "tls:" in values, "tokens:" in values)

    def start_both(self, folder, found, tls, tokens):
        processes, ports = [], {name: cluster.free_port() for name in ("7070", "7071", "7072")}
        try:
            for component, program in (("coordinator", "longhaul-coordinator"), ("pool", "longhaul-worker")):
                [container] = found["StatefulSet", f"longhaul-{component}"]["spec"]["template"]["spec"]["containers"]
                env = {item["name"]: item["value"] for item in container["env"]}
                env = {name: re.sub(r"^/tls/", f"{folder}/{component}/", value).replace("/tokens/tokens", f"{folder}/tokens/tokens") for name, value in env.items()}
                for name in ("LONGHAUL_LISTEN", "LONGHAUL_HTTP_LISTEN"):
                    if name in env:
                        host, _, port = env[name].rpartition(":")
                        env[name] = f"{host}:{ports[port]}"
                env.update(LONGHAUL_DATA_DIR=str(folder / "data"), LONGHAUL_WORK_DIR=str(folder / "work"), LONGHAUL_COORDINATOR=f"localhost:{ports['7070']}")
                with tempfile.TemporaryFile() as log:
                    process = subprocess.Popen([cluster.BIN / program, *container["args"]], env={"PATH": os.environ["PATH"], **env}, cwd=folder, stdout=log, stderr=log)
                    processes.append(process)
                    self.await_probe(process, log, ports["7071" if component == "coordinator" else "7072"], tls and tokens)
            flags = ["--server", f"localhost:{ports['7070']}"]
            if tls:
                flags += ["--tls-ca", folder / "ca/ca.pem", "--tls-certificate", folder / "ca/me.pem", "--tls-key", folder / "ca/me.key"]
            if tokens:
                flags += ["--token-file", folder / "me.token"]
            pools = json.loads(subprocess.run([cluster.BIN / "longhaul", *flags, "pools", "-o", "json"], check=True, capture_output=True, text=True).stdout)["data"]
            self.assertEqual([pool["name"] for pool in pools], ["site-a"])
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def await_probe(self, process, log, port, https):
        """As the pod's probe for readiness; of a worker, that it has joined."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        def said():
            log.seek(0)
            return log.read().decode()

        def ready():
            self.assertIsNone(process.poll(), said())
            try:
                with urllib.request.urlopen(f"{'https' if https else 'http'}://127.0.0.1:{port}/readyz", context=context if https else None, timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False

        cluster.wait_until(ready, 30, "the probe")

    def test_images_and_jobs_have_the_names_of_the_tree(self):
        text = "".join(self.render(path.read_text()) for path in SITES)
        built = {p.name.split(".")[0] for p in (ROOT / "deploy/images").glob("*.Dockerfile")}
        self.assertEqual(set(re.findall(r"/longhaul-([a-z-]+):", text)), built)
        jobs = set(re.findall(r"replacement: (longhaul-\w+)", text))
        self.assertEqual(jobs, set(re.findall(r"job_name: (\S+)", (ROOT / "deploy/prometheus/prometheus.yaml").read_text())))
        self.assertEqual(re.findall(r'[vV]ersion: "?(\d[\d.]+)"?$', (CHART / "Chart.yaml").read_text(), re.MULTILINE), [VERSION, VERSION])

    def test_it_is_linted_and_packaged_by_helm(self):
        with tempfile.TemporaryDirectory() as folder:
            outs = [pathlib.Path(folder, name) for name in ("a", "b")]
            for out in outs:
                out.mkdir()
                packaged = subprocess.run([python_with_helm(), "-B", ROOT / "deploy/release/chart.py", out], env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
                                          capture_output=True, text=True, check=False)
                self.assertEqual(packaged.returncode, 0, packaged.stderr)
            archive, layout = (outs[0] / f"longhaul-chart-{VERSION}.{ending}" for ending in ("tgz", "oci.tar"))
            for path in (archive, layout):
                self.assertEqual(path.read_bytes(), (outs[1] / path.name).read_bytes())
            site = (HELM / "values/coordinator-site.yaml").read_text()
            self.assertEqual(try_render(site, chart=archive)[0], try_render(site)[0])
            with tarfile.open(archive) as files:
                names = files.getnames()
            self.assertLessEqual({f"longhaul/{name}" for name in ("Chart.yaml", "README.md", "values.schema.json", "templates/NOTES.txt", "monitoring/alerts.yaml")}, set(names))
            self.check_layout(layout, archive.read_bytes())

    def check_layout(self, layout, chart):
        """As the specification of OCI's image layout says; every blob has its digest."""
        with tarfile.open(layout) as files:
            content = {member.name: files.extractfile(member).read() for member in files}
        self.assertEqual(json.loads(content["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        for path, blob in content.items():
            if path.startswith("blobs/"):
                self.assertEqual(path, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}")

        def blob_of(descriptor):
            blob = content["blobs/" + descriptor["digest"].replace(":", "/")]
            self.assertEqual(len(blob), descriptor["size"])
            return blob

        [named] = json.loads(content["index.json"])["manifests"]
        manifest = json.loads(blob_of(named))
        self.assertEqual(json.loads(blob_of(manifest["config"]))["version"], VERSION)
        self.assertEqual([blob_of(layer) for layer in manifest["layers"]], [chart])


if __name__ == "__main__":
    cluster.main()

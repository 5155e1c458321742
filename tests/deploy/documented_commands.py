"""What documented_test.py makes of the commands that the documents and help pages show. A command that no table names is run as it stands."""

import re

# What is run where a command has a placeholder, takes long or never ends; and what it must say, if that is not clear from its exit code.
INSTEAD = {
    # README.md, docs/quickstart.md, docs/guide
    "build/bin/cluster_search --seeds 1000": "build/bin/cluster_search --seeds 20",
    "build/bin/longhaul submit -f job.yaml --set 'data={megatron: {prefix: corpus}, order: epochs}' --set model.transformer.vocab=50257":
        "build/bin/longhaul submit -f job.yaml --set 'data={megatron: {prefix: corpus}, order: epochs}' --set model.transformer.vocab=50257 "
        "--set name=of-tokens --set train.steps=8 --wait",
    "build/bin/longhaul download quickstart --out /tmp/quickstart-model": "build/bin/longhaul download quickstart --out quickstart-model",
    "build/bin/longhaul export quickstart --out /tmp/quickstart-hf": "build/bin/longhaul export quickstart --out exported-by-hand",
    "build/bin/longhaul compare JOB JOB-alone": "build/bin/longhaul compare by-hand by-hand-alone",
    "longhaul tokens add prometheus viewer --tokens /etc/longhaul/tokens": "longhaul tokens add prometheus viewer --tokens users",
    "longhaul submit -f job.yaml --set name=onward --from /tmp/quickstart-model":
        "longhaul submit -f job.yaml --set name=onward --from quickstart-model --wait",
    "longhaul checkpoint JOB": "longhaul checkpoint running --wait",
    "longhaul compare JOB OTHER": "longhaul compare quickstart quickstart",
    "longhaul doctor JOB": "longhaul doctor quickstart",
    "longhaul submit -f job.yaml --set name=NEW --set inner.adamw.lr=... --from JOB@STEP":
        "longhaul submit -f job.yaml --set name=lower --set inner.adamw.lr=1e-4 --set train.steps=8 --from quickstart --wait",
    "longhaul compare JOB": "longhaul compare quickstart",
    "longhaul sample JOB --prompt TEXT": "longhaul sample quickstart --prompt Once --max-tokens 8",
    "longhaul eval JOB --data PATH": "longhaul eval quickstart --data /usr/share/common-licenses/BSD",
    "longhaul pause JOB": "longhaul pause running --wait",
    "longhaul resume JOB": "longhaul resume running",
    "longhaul logs quickstart --follow": "longhaul logs quickstart --follow --timeout 2s",
    "tensorboard --logdir DATA/jobs/ID/track": "tensorboard --inspect --logdir $(ls -d data/jobs/*/track | head -n 1)",
    "tensorboard --logdir /var/lib/longhaul/coordinator/jobs/ID/track": "tensorboard --inspect --logdir $(ls -d data/jobs/*/track | head -n 1)",
    # CONTRIBUTING.md
    "ctest --test-dir build -R session": "ctest --test-dir $BUILD -N -R session",
    "ctest --test-dir build -R faults": "ctest --test-dir $BUILD -N -R faults",
    "ctest --test-dir build -R models": "ctest --test-dir $BUILD -N -R models",
    "ctest --test-dir build -R style": "ctest --test-dir $BUILD -N -R style",
    "ctest --test-dir build -R documented": "ctest --test-dir $BUILD -N -R documented",
    "build/bin/cluster_search --seeds 100000": "build/bin/cluster_search --seeds 20",
    "cmake --build build --target fuzz_replays && ctest --test-dir build -C fuzz -L fuzz": "ctest --test-dir $BUILD -N -C fuzz -L fuzz",
    "tests/run.sh -R deploy": "ctest --test-dir $BUILD -N -R deploy",
    "cmake -B build-plain -DLONGHAUL_UNITY=OFF -DLONGHAUL_PRECOMPILE=OFF": "cmake -N -LA $BUILD",
    "tests/benchmark/run.sh codec --json tests/benchmark/runs/codec.json": "tests/benchmark/run.sh --list",
    "tests/benchmark/run.sh engine": "tests/benchmark/run.sh --list",
    "tests/benchmark/run.sh faults -- --pools 32 --minutes 8 --mode lockstep": "tests/benchmark/run.sh --list",
    "tests/fuzz/run.sh --seconds 60": "tests/fuzz/run.sh --help",
    "tests/soak/run.sh --minutes 30": "BUILD_DIR=$BUILD tests/soak/run.sh --help",
    "tests/soak/run.sh --minutes 30 --seed 7": "BUILD_DIR=$BUILD tests/soak/run.sh --help",
    "python3 tests/integration/combinations/job_search.py build/bin --minutes 20 --seed 1": "python3 tests/integration/combinations/job_search.py --help",
    "python3 tests/integration/combinations/link_search.py build/bin --minutes 20 --seed 1": "python3 tests/integration/combinations/link_search.py --help",
    "tests/nightly.sh": "tests/nightly.sh --list",
    "tests/nightly.sh asan upgrade": "tests/nightly.sh --list",
    "tests/nightly.sh losses": "tests/nightly.sh --list",
    **{f"{before}cmake --preset {preset} && cmake --build --preset {preset}": "cmake --list-presets=all" for before, preset in
       (("", "release"), ("deploy/setup.sh && ", "release"), ("", "dev"), ("", "ci"), ("", "coordinator-only"), ("", "asan"))},
    # docs/deploy, docs/operate
    "longhaul logs POOL": "longhaul logs site-a",
    "longhaul-coordinator --check --data-dir D": "longhaul-coordinator --check --data-dir stopped",
    "openssl x509 -noout -enddate -in FILE": "openssl x509 -noout -enddate -in longhaul-ca/ca.pem",
    "longhaul get JOB": "longhaul get quickstart",
    "longhaul events JOB": "longhaul events quickstart",
    "longhaul checkpoints JOB": "longhaul checkpoints quickstart",
    "longhaul cancel JOB": "longhaul cancel running",
    "longhaul delete JOB": "longhaul submit -f job.yaml --set name=gone --set pools.min=9 && longhaul cancel gone && longhaul delete gone",
    "longhaul submit -f job.yaml --set name=NEW --from JOB@STEP": "longhaul submit -f job.yaml --set name=renewed --from quickstart@40 --wait",
}
# What else ends with an error, and what it says then.
REFUSED = {command: "has ended" for command in (
    "longhaul checkpoint quickstart", "longhaul pause quickstart --reason maintenance", "longhaul pause quickstart --wait", "longhaul resume quickstart")}
SAYS = {
    "build/bin/longhaul pools": r"site-c .*IDLE",
    **{command: r"Total Tests: [1-9]" for command, instead in INSTEAD.items() if instead.startswith("ctest ")},
    **{command: rf'"{re.search("--preset ([a-z-]+)", command)[1]}"(.|\n)*"{re.search("--preset ([a-z-]+)", command)[1]}"'
       for command, instead in INSTEAD.items() if instead == "cmake --list-presets=all"},
    "cmake -B build-plain -DLONGHAUL_UNITY=OFF -DLONGHAUL_PRECOMPILE=OFF": r"LONGHAUL_PRECOMPILE:BOOL(.|\n)*LONGHAUL_UNITY:BOOL",
    "tests/benchmark/run.sh codec --json tests/benchmark/runs/codec.json": r"(?m)^codec$", "tests/benchmark/run.sh engine": r"(?m)^engine$", "tests/benchmark/run.sh faults -- --pools 32 --minutes 8 --mode lockstep": r"(?m)^faults$",
    "tests/fuzz/run.sh --seconds 60": r"--seconds N", "tests/soak/run.sh --minutes 30": r"--minutes MINUTES",
    "tests/soak/run.sh --minutes 30 --seed 7": r"--seed SEED",
    **{command: r"--seed SEED(.|\n)*--minutes MINUTES" for command in INSTEAD if "_search.py" in command},
    "tests/nightly.sh": r"gate: (.|\n)*benchmarks: ", "tests/nightly.sh asan upgrade": r"(?m)^asan: (.|\n)*^upgrade: ",
    "tests/nightly.sh losses": r"(?m)^losses: ",
}

# Names of commands and flags, with which the text says what they do: the program's own help must know them.
MENTIONED = {
    "longhaul submit --dry-run", "longhaul certs issue", "longhaul certs", "longhaul certs kit", "longhaul certs kit SITE", "longhaul certs revoke", "longhaul certs revoke NAME", "longhaul eval", "longhaul data check", "longhaul plan", "longhaul simulate",
    "longhaul graph import", "longhaul graph info", "longhaul graph predict", "longhaul graph import ogb FOLDER", "longhaul graph import graphbolt FOLDER",
    "longhaul simulate job", "longhaul simulate gather-requests", "longhaul graph import edges",
    "longhaul logs", "longhaul download",
    "longhaul-worker --work-dir", "longhaul-worker --trace FILE", "longhaul-worker --track-dir FOLDER", "longhaul-worker --state-dir FOLDER", "longhaul --server HOST:PORT",
    "longhaul-coordinator --ended-job-keep TIME", "longhaul submit", "longhaul events",
}

# Blocks for the machines of docs/deploy/two-machines.md: two_machines_test.py runs each.
OF_MACHINES = ("tests/deploy/two_machines_test.py", "for machines, block in commands()")

# command: (why it is not run here, file, what must stand in it). Where the reason is a test, the file is that test, and ctest, tests/nightly.sh,
# tests/deploy/run.sh or .ci/run must know it.
BY_TEST = "another test runs it"
CHANGES = "it changes the tree"
NIGHTLY = "the nightly run has it"
NOT_HERE = "it needs what a test machine lacks"
NO_PROGRAM = "it is a file that the text speaks of"
INSTALLED = (BY_TEST, "tests/deploy/release_run_test.py", "block('README.md', 'train')")
GUIDE_LINES = (BY_TEST, "tests/models/guide_test.py", "The commands of the block from the submission to the sample")
CHAT_LINES = (BY_TEST, "tests/models/chat_test.py", "The commands of the guide's block")
KIT = (BY_TEST, "tests/integration/processes/site_kit_test.py", "test_a_pool_is_started_by_its_kit")
ELSEWHERE = {
    "PYTHONPATH=deploy/python python3 -m longhaul.tokenize --tokenizer /models/base --out /data/corpus '/data/*.jsonl'": GUIDE_LINES,
    "build/bin/longhaul submit -f deploy/examples/continue.yaml --set model.hf.path=/models/base --set 'data={megatron: {prefix: /data/corpus}}' --wait":
        GUIDE_LINES,
    "build/bin/longhaul submit -f deploy/examples/continue.yaml --set model.hf.path=/models/base --set data.jsonl.path='/data/*.jsonl' --wait": GUIDE_LINES,
    "PYTHONPATH=deploy/python build/bin/longhaul data check /data/chat.jsonl --tokenizer /models/chat": CHAT_LINES,
    "build/bin/longhaul submit -f deploy/examples/chat.yaml --set model.hf.path=/models/chat --set data.chat.path=/data/chat.jsonl --wait": CHAT_LINES,
    "build/bin/longhaul export continue --out trained": GUIDE_LINES,
    "longhaul export JOB --dtype fp32 --out trained": (BY_TEST, "tests/integration/processes/graphs_test.py", '"export", "graph", "--dtype", "fp32"'),
    "python3 -c 'import transformers; transformers.AutoModelForCausalLM.from_pretrained(\"trained\")'": GUIDE_LINES,
    "PYTHONPATH=deploy/python build/bin/longhaul sample trained --prompt \"Once\"": GUIDE_LINES,
    "longhaul eval trained --data /data/corpus": (BY_TEST, "tests/models/guide_test.py", "build/bin/longhaul eval {trained} --data {corpus}"),
    "deploy/quickstart.sh": (BY_TEST, "tests/integration/processes/quickstart_test.py", "deploy/quickstart.sh"),
    "deploy/quickstart.sh --compare-alone": (BY_TEST, "tests/integration/processes/quickstart_test.py", '"--compare-alone"'),
    "deploy/quickstart.sh --ranks 2 --set 'inner.onebit_adam={lr: 4e-3, freeze_step: 1000}'":
        (BY_TEST, "tests/integration/processes/quickstart_test.py", '"--ranks", "2", "--set", "inner.onebit_adam={lr: 4e-3'),
    "tests/run.sh": (BY_TEST, ".ci/run", "exec tests/run.sh"),
    "deploy/images/build.sh": (BY_TEST, "tests/deploy/images_run_test.py", "deploy/images/build.sh"),
    "tests/deploy/run.sh two-machines": (NIGHTLY, "tests/nightly.sh", "part_two-machines() { deployment two-machines; }"),
    "sbatch --nodes=2 --gpus-per-node=4 deploy/slurm/pool.sbatch --coordinator train.example.org:7070 --pool site-a --ranks 4 --device cuda "
    "--state-dir /shared/longhaul/state --data-dir /shared/corpus --allow-plaintext-beyond-localhost --tls-ca ca.pem --tls-certificate site-a.pem "
    "--tls-key site-a.key": (BY_TEST, "tests/deploy/slurm_test.py", "deploy/slurm/pool.sbatch"),
    "longhaul certs kit site-b --coordinator hub.example:7070": KIT, "scp longhaul-site-b.tar.gz site.example:": KIT,
    "tar -xzf longhaul-site-b.tar.gz && longhaul-site-b/start.sh --ranks 2": KIT, "longhaul certs revoke site-b": KIT,
    "longhaul-site-b/install-service.sh": (BY_TEST, "tests/deploy/two_machines_test.py", "longhaul-site-b/install-service.sh"),
    "longhaul graph predict packages --graph site --split test --out predicted":
        (BY_TEST, "tests/integration/processes/graphs_test.py", '"graph", "predicted", "--graph", self.a, "--split", "test"'),
    "longhaul graph predict links --graph linked --pairs pairs.csv --out predicted":
        (BY_TEST, "tests/integration/processes/graph_links_test.py", '"links", self.a, pairs'),
    "longhaul graph predict packages-final --graph site --embeddings --out embedded -o json":
        (BY_TEST, "tests/integration/processes/graphs_test.py", '"--embeddings"'),
    "longhaul graph import ogb ogbn_arxiv --reverse-edges --out arxiv":
        (NOT_HERE, "tests/unit/worker/data/graph/graph_sources_test.cc", "ReadsOgbAsCsv"),
    "longhaul graph import graphbolt my-dataset --directed --out my-graph":
        (NOT_HERE, "tests/unit/worker/data/graph/graph_sources_test.cc", "ReadsGraphBolt"),
    **{command: INSTALLED for command in (
        "apt-get install ./longhaul_0.1.0_amd64.deb ./longhaul-worker_0.1.0_amd64.deb", "tar -xf longhaul-0.1.0-linux-x86_64.tar.gz",
        'export PATH="$PWD/longhaul-0.1.0-linux-x86_64/bin:$PATH"', "pip install ./longhaul_cpu-*.whl ./longhaul_programs-*.whl ./longhaul_client-*.whl", "until longhaul pools; do sleep 1; done",
        "longhaul-coordinator > coordinator.log 2>&1 &",
        "longhaul-worker --pool site-a > site-a.log 2>&1 &", "longhaul-worker --pool site-b > site-b.log 2>&1 &", "longhaul spec init > job.yaml",
        "longhaul submit -f job.yaml --set data.text.path=/usr/share/common-licenses --set train.steps=1000 --wait",
        'longhaul sample quickstart --prompt "The "', "apt-get purge longhaul longhaul-worker")},
    **{command: (BY_TEST, "tests/deploy/release_run_test.py", 'block("docs/deploy/install.md", "verify")') for command in (
        "ssh-keygen -Y verify -f allowed_signers -I longhaul -n longhaul-release -s SHA256SUMS.sig < SHA256SUMS",
        "sha256sum --check --ignore-missing SHA256SUMS")},
    "deploy/release.sh --sign ~/.ssh/longhaul-release": (BY_TEST, "tests/deploy/release_run_test.py", 'block("docs/deploy/install.md", "release")'),
    "deploy/release.sh": (BY_TEST, "tests/deploy/release_run_test.py", 'block("docs/deploy/install.md", "release")'),
    "systemctl enable --now longhaul-coordinator": (NOT_HERE, "deploy/debian/postinst", "None is started or enabled"),
    "systemctl enable --now longhaul-worker": (NOT_HERE, "deploy/debian/postinst", "None is started or enabled"),
    "pip install 'longhaul-client[tokenize]'": (NOT_HERE, "deploy/python/pyproject.toml", 'tokenize = ["tokenizers"'),
    "helm install longhaul longhaul-chart-0.1.0.tgz --values my-values.yaml": (NOT_HERE, "deploy/release/chart.py", "longhaul-chart-{VERSION}.tgz"),
    "helm install": (NOT_HERE, "deploy/release/chart.py", "`helm install` takes"),
    "$(deploy/setup.sh --print-venv)/bin/python deploy/graphs/debian_packages.py --out packages":
        (BY_TEST, "tests/graph/graph_makers_test.py", "test_the_packages_of_this_machine_import"),
    "deploy/quickstart.sh --example graph": (BY_TEST, "tests/integration/processes/quickstart_graph_test.py", "deploy/quickstart.sh"),
    "longhaul submit -f job.yaml --set name=home --alone site-a --from JOB --set train.steps=100":
        (BY_TEST, "tests/integration/processes/quickstart_graph_test.py", "100 steps more at home"),
    "deploy/graphs/wordnet.py": (NO_PROGRAM, "tests/graph/graph_makers_test.py", "def test_wordnet"),
    "tests/graph/sage_reference.py": (NO_PROGRAM, "tests/graph/sage_reference_test.py", "class SageReferenceTest"),
    "pip install transformers": (BY_TEST, "tests/models/guide_test.py", "import transformers"),
    "pip install pyarrow": (BY_TEST, "tests/integration/data/files_test.py", "import pyarrow"),
    "tests/deploy/run.sh all": (NIGHTLY, "tests/nightly.sh", 'tests/deploy/run.sh "$1"'),
    "ctest --test-dir build-asan": (NIGHTLY, "tests/nightly.sh", 'run_sanitized "$work/asan"'),
    "build/tests/scenario_test --rewrite": (CHANGES, "tests/scenarios/scenario_test.cc", "--rewrite"),
    "tests/gpu/bundle.sh": (BY_TEST, "tests/gpu/bundle_test.py", "tests/gpu/bundle.sh"),
    "longhaul-gpu/run.sh": (BY_TEST, "tests/gpu/bundle_test.py", "longhaul-gpu/run.sh"),
    "python3 deploy/grafana/make_dashboards.py": (BY_TEST, "tests/deploy/monitoring_test.py", "deploy/grafana/make_dashboards.py"),
    "deploy/grafana/make_dashboards.py": (BY_TEST, "tests/deploy/monitoring_test.py", "deploy/grafana/make_dashboards.py"),
    "python3 deploy/make_reference.py build/bin --write": (BY_TEST, "tests/deploy/cli_contract_test.py", "deploy/make_reference.py"),
    "deploy/make_reference.py BUILD/bin --write": (BY_TEST, "tests/deploy/cli_contract_test.py", "deploy/make_reference.py"),
    "deploy/schemas/make_schemas.py": (BY_TEST, "tests/deploy/cli_contract_test.py", "make_schemas.py"),
    "tests/upgrade/run.sh": (NIGHTLY, "tests/nightly.sh", "  tests/upgrade/run.sh\n"),
    "python3 tests/upgrade/golden_store.py BIN REVISION": (CHANGES, "tests/upgrade/golden_store.py", "golden_store.py BIN REVISION"),
    "python3 tests/upgrade/contract_test.py --write": (CHANGES, "tests/upgrade/contract_test.py", "--write"),
    "python3 docs/images/loss_against_bytes.py BUILD/bin TEXT": (CHANGES, "tests/documents/documents_test.py", "test_the_plot_is_that_of_its_figures"),
    **{f"python3 tests/benchmark/figures.py --{flag}": (BY_TEST, "tests/benchmark/figures_test.py", f'"--{flag}') for flag in ("write", "mark-old")},
    "tests/tidy/tidy_test.py": (NO_PROGRAM, "tests/tidy/tidy_test.py", "def main"),
    "tests/gate/skips.py": (NO_PROGRAM, "tests/gate/skips.py", "REASONS = ("),
    "tests/deploy/documented_commands.py": (NO_PROGRAM, "tests/deploy/documented_commands.py", "INSTEAD = {"),
    "git ls-files '*.h' '*.cc' | xargs clang-format -i": (CHANGES, ".clang-format", "BasedOnStyle"),
    "longhaul-coordinator --listen 0.0.0.0:7070 --tls-ca longhaul-ca/ca.pem --tls-certificate longhaul-ca/longhaul.example.org.pem "
    "--tls-key longhaul-ca/longhaul.example.org.key --tokens tokens --audit-log audit.jsonl":
        (BY_TEST, "tests/integration/processes/security_test.py", "docs/operate/security.md"),
    "longhaul --tls-ca ca.pem --tls-certificate bob.pem --tls-key bob.key --token-file bob.token list":
        (BY_TEST, "tests/integration/processes/security_test.py", '"bob.token"'),
    "pip install tokenizers jinja2 ./deploy/python": (BY_TEST, "tests/deploy/python_client_test.py", 'tools.pip(cls.oldest, "install"'),
    "pip install tokenizers ./deploy/python": (BY_TEST, "tests/deploy/python_client_test.py", 'tools.pip(cls.oldest, "install"'),
    "pip install ./deploy/python": (BY_TEST, "tests/deploy/python_client_test.py", 'tools.pip(cls.oldest, "install"'),
    "python3 -m longhaul.tokenize --field COLUMN ... train/*.parquet":
        (BY_TEST, "tests/integration/data/files_test.py", 'self.made / "a.parquet", "--field", "body"'),
    "ssh -L 7071:localhost:7071 hub.example": (NOT_HERE, "tests/deploy/two_machines_test.py", "scp by a copy"),
    "ssh -N -f -o ServerAliveInterval=15 -L 7070:127.0.0.1:7070 hub.example": (NOT_HERE, "tests/deploy/two_machines_test.py", "scp by a copy"),
    "scp -r hub.example:longhaul/build/bin build/": (NOT_HERE, "tests/deploy/two_machines_test.py", "scp by a copy"),
    "LONGHAUL_CACHE_DIR=/opt/longhaul deploy/setup.sh": (NOT_HERE, "deploy/setup.sh", "LONGHAUL_CACHE_DIR"),
    **{f"buildah push localhost/longhaul-{image}:latest docker://registry.example.org/ml/longhaul-{image}:0.1.0":
       (NOT_HERE, "deploy/images/build.sh", "localhost/longhaul-IMAGE:TAG") for image in ("coordinator", "worker")},
    "helm install longhaul deploy/helm/longhaul --values deploy/helm/values/coordinator-site.yaml --set image.registry=registry.example.org/ml --set image.tag=0.1.0":
        (NOT_HERE, "deploy/helm/longhaul/values.yaml", "registry: "),
    "helm install longhaul oci://ghcr.io/longhaul/charts/longhaul --version 0.1.0 --values my-values.yaml": (NOT_HERE, ".github/workflows/release.yml", "charts/longhaul:"),
    "kubectl create secret generic coordinator-tls --from-file=ca.crt=longhaul-ca/ca.pem --from-file=tls.crt=longhaul-ca/longhaul.example.org.pem "
    "--from-file=tls.key=longhaul-ca/longhaul.example.org.key": (NOT_HERE, "deploy/helm/longhaul/values.yaml", "the keys ca.crt, tls.crt and tls.key"),
    "kubectl create secret generic longhaul-tokens --from-file=tokens": (NOT_HERE, "deploy/helm/longhaul/values.yaml", "the key `tokens`"),
    "kubectl port-forward": (NOT_HERE, "deploy/helm/longhaul/templates/NOTES.txt", "port-forward service/"),
    "helm upgrade --reuse-values": (NOT_HERE, "deploy/helm/longhaul/templates/NOTES.txt", "helm upgrade --reuse-values"),
    "helm upgrade": (NOT_HERE, "deploy/helm/longhaul/templates/NOTES.txt", "helm upgrade"),
    "docker compose -f deploy/compose.yaml up --build -d": (NOT_HERE, "deploy/compose.yaml", "docker compose -f deploy/compose.yaml up --build -d"),
    "podman-compose -f deploy/compose.yaml up -d": (BY_TEST, "tests/deploy/compose_test.py", 'self.compose("up", "-d"'),
    "podman-compose -f deploy/compose.yaml exec -T coordinator longhaul pools": (BY_TEST, "tests/deploy/compose_test.py", 'self.longhaul("pools")'),
    "podman-compose -f deploy/compose.yaml exec -T coordinator longhaul submit -f - --wait < job.yaml":
        (BY_TEST, "tests/deploy/compose_test.py", 'self.longhaul("submit", "-f", "-", "--wait"'),
    "docker logs worker": (NOT_HERE, "tests/deploy/two_machines_test.py", "docker by"),
    "journalctl -u longhaul-worker": (NOT_HERE, "tests/deploy/two_machines_test.py", "systemctl by a program"),
    "export LONGHAUL_CACHE_DIR=/opt/longhaul": (NOT_HERE, "deploy/setup.sh", "LONGHAUL_CACHE_DIR"),
}

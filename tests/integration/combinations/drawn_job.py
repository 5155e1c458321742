"""A job drawn from the options that job.proto has, with what is promised of it: which fields refuse it, and which options do not change its result."""

# By pool: the ranks of its nodes.
POOLS = {"alder": [1], "birch": [2], "cedar": [2, 2]}
BYTES, PIECES, BPE = 256, 400, 512
PRESETS = ("ddp", "zero1", "zero2", "zero3", "zeropp", "frontier3")
CODECS = ("fp32", "bf16", "e3m0", "int8", "int6", "int4", "sign1", "topk2")

# Options that change no bit of the result, by the words of job.proto: how it is computed, kept or measured.
NEUTRAL = ("offload", "evaluation", "checkpoint", "partition.gathers_ahead", "train.activations", "pools", "model.transformer.positions")
# Options of which no promise is made, or whose effect depends on other numbers: sums in another order, limits that are not reached.
UNCERTAIN = ("partition", "train.blocks", "train.accumulation", "inner.clip_norm", "inner.onebit_adam", "sync.quorum", "sync.mode", "sync.fragments", "init")

# Options that others need.
NEEDED = ("name", "train.steps", "pools.names", "pools.min", "model.transformer.vocab", "data.jsonl.field", "data.tokens.format")


def below(path, prefixes):
    return any(path == prefix or path.startswith(prefix + ".") for prefix in prefixes)


def leaves(tree, path=""):
    """Paths of all values; a list is one value."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield path + key


def at(tree, path):
    """None: it is not there."""
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def without(tree, path):
    first, _, rest = path.partition(".")
    if rest:
        return {**tree, first: without(tree[first], rest)}
    return {key: value for key, value in tree.items() if key != first}


class Drawing:
    def __init__(self, draw, files):
        self.draw, self.files = draw, files

    def coin(self, chance=0.5):
        return self.draw.random() < chance

    def some(self, chance=0.3, **choices):
        """Each of the options with that chance, with one of its values."""
        return {name: self.draw.choice(values) for name, values in choices.items() if self.coin(chance)}

    def job(self, name):
        """Mostly one that is accepted and that its pools can do."""
        while True:
            spec = self.any_job(name)
            if not refusals(spec) and not unfit(spec) or self.coin(0.1):
                return spec

    def any_job(self, name):
        draw = self.draw
        pools = draw.choices((["alder"], ["birch"], ["cedar"], ["alder", "birch"], ["alder", "birch", "cedar"]), (34, 30, 10, 22, 4))[0]
        steps = draw.randrange(5, 41)
        spec = {"name": name, "model": self.model(), "train": self.train(steps), "inner": self.inner(steps), "partition": self.partition(),
                "offload": self.offload(), "sync": self.sync(steps, len(pools)), "pools": {"min": len(pools), "names": pools},
                "checkpoint": self.some(every_cycles=(-1, 1, 2), keep=(1, 2)),
                "evaluation": {"batches": draw.choice((1, 2)), **self.some(every_cycles=(-1, 1, 2), pools_every_cycles=(-1, 1, 3), beside_training=(True,))}}
        if "transformer" in spec["model"]:
            vocab, spec["data"] = self.data(pools)
            spec["model"]["transformer"]["vocab"] = vocab
        if self.coin(0.2):
            spec["pools"]["max"] = len(pools)
        return {key: value for key, value in spec.items() if value != {}}

    def model(self):
        if self.coin(0.05):
            return {"synthetic": {"units": self.draw.randrange(1, 5), "elements": self.draw.choice((1, 100, 5000)),
                                  **self.some(0.7, initial=(0.5,), inner_delta=([0.25], [0.25, -0.5]))}}
        heads, layers = self.draw.choice((1, 2, 4)), self.draw.randrange(1, 5)
        return {"transformer": {"layers": layers, "dim": heads * self.draw.choice((8, 16, 20)), "heads": heads, "ff_dim": self.draw.choice((24, 64, 100)),
                                "context": self.draw.choice((8, 16, 33)),
                                **self.some(0.2, kv_heads=[n for n in (1, 2, 4) if heads % n == 0], rope_theta=(500.0,), norm_eps=(1e-3,), qk_norm=(True,),
                                            tie_embeddings=(True,), head_dim=(6, 16), positions=(64,),
                                            rope_scaling=({"linear": 4.0}, {"llama3": {"factor": 8.0, "original_context": 32}}))}}

    def source(self, kind, vocab):
        """One of the sources with that many distinct tokens. Token files have token 0 behind each document."""
        files, text = self.files, kind in ("text", "jsonl")
        marks = self.some(eos=(-1, 3), bos=(-1, 5)) if text else self.draw.choice(({}, {"eos": 0}, {"bos": 0})) if kind == "tokens" else {}
        if text:
            tokenizer = {BYTES: {}, PIECES: {"tokenizer": files["pieces"]}, BPE: {"tokenizer": files["bpe"]}}[vocab]
            fields = self.some(line_mib_max=(1,), null_rows=("refuse", "skip")) if kind == "jsonl" else {}
            return {kind: {"path": files[kind], **({"field": "body"} if kind == "jsonl" else {}), **tokenizer, **marks, **fields}}
        if kind == "tokens":
            form = self.draw.choice(("nanogpt", "llmc"))
            return {kind: {"path": files[form], **({"format": form} if form == "llmc" else self.some(format=("nanogpt",))), **marks}}
        return {kind: {"prefix": files["megatron"]}}

    def data(self, pools):
        vocab = self.draw.choices((BYTES, PIECES, BPE), (80, 12, 8))[0]
        kinds = ("text", "text", "jsonl", "tokens", "megatron") if vocab == BYTES else ("text", "jsonl")

        def any_source():
            if self.coin(0.75):
                return self.source(self.draw.choice(kinds), vocab)
            return {"mixture": {"sources": [{**self.source(self.draw.choice(kinds), vocab), **self.some(0.7, weight=(0.5, 3.0))}
                                            for _ in range(self.draw.randrange(1, 4))]}}
        data = {**any_source(), **self.some(order=("draws", "epochs"), separate_documents=(True,), eval_fraction=(0.2,))}
        if self.coin(0.15):
            data["pools"] = [{"pool": self.draw.choice(pools), **any_source()}]
        return vocab, data

    def train(self, steps):
        batch = self.draw.randrange(1, 9)
        return {"steps": steps, "batch": batch, **self.some(seed=(7, 2**40), precision=("float32", "bfloat16"), accumulation=range(1, batch + 1),
                                                            activations=("keep", "recompute"), blocks=("auto", "fused", "autograd"))}

    def inner(self, steps):
        def adamw():
            return self.some(lr=(0.003,), beta1=(0.8,), beta2=(0.95,), eps=(1e-6,), weight_decay=(0.0, 0.2), moments=("float32", "bfloat16"))
        kind = self.draw.choices(("none", "adamw", "muon", "onebit_adam"), (15, 35, 25, 25))[0]
        inner = {"none": {}, "adamw": {"adamw": adamw()},
                 "muon": {"muon": {**self.some(lr=(0.01,), momentum=(0.0, 0.8), weight_decay=(0.1,), scaling=("spectral", "match_adamw"),
                                               iterations=("float32", "bfloat16")), "adamw": adamw()}},
                 "onebit_adam": {"onebit_adam": self.onebit_adam(steps)}}[kind]
        if self.coin():
            inner["schedule"] = self.some(0.6, warmup_steps=(0, 2, steps // 2, steps), final_fraction=(0.0, 0.5, 1.0))
        return {**inner, **self.some(clip_norm=(-1.0, 0.3, 50.0))}

    def onebit_adam(self, steps):
        # One gradient is no variance: with freeze_step 1 and no updates after it, training may diverge.
        fields = {"freeze_step": self.draw.choice((0, 2, 3, max(2, steps // 4))),
                  **self.some(0.2, lr=(0.003,), beta1=(0.8,), beta2=(0.5,), eps=(1e-6,), weight_decay=(0.0, 0.2), freeze_ratio=(0.5,), mean_scale=(True,),
                              scale_block=(64, 2**30))}
        if self.coin(0.4):
            fields |= {"freeze_step": self.draw.choice((0, 1, 2)), "var_update_scaler": self.draw.choice((1, 2)), **self.some(0.7, var_freeze_step=(3, 8))}
        if self.coin(0.4):
            fields |= {"local_step_scaler": self.draw.choice((1, 3)), **self.some(0.5, local_step_clipper=(2, 4))}
        return fields

    def partition(self):
        ahead = self.some(0.15, gathers_ahead=(0, 3))
        if self.coin(0.25):
            return {}
        if self.coin(0.65):
            return {"preset": self.draw.choice(PRESETS), **ahead}
        levels = ("rank", "pair", "node", "pool")

        def split(bits, chance=0.6):
            return {**self.some(0.8, level=levels), **self.some(chance, bits=bits)}
        gradients = split((4, 6, 8, 16, 32))
        if gradients.get("bits", 32) <= 8 and self.coin(0.6):
            gradients |= {"error_feedback": True, **self.some(0.4, error_beta=(0.5,), error_reset_steps=(3,))}
        partition_map = {"weights": split((4, 6, 8, 16, 32)), "gradients": gradients, "optimizer": self.draw.choice((*levels, "pool", "pool"))}
        if self.coin(0.4):
            partition_map["secondary"] = split((4, 6, 8, 16, 32))
        return {"map": partition_map, **ahead}

    def offload(self):
        if self.coin(0.7):
            return {}
        return {"optimizer": True, **self.some(parameters=(True,), stride=(0, 1, 2, 3), device_share=(0.4, 1.0), subgroup_elements=(128, 1280))}

    def codec(self, down):
        codec = self.draw.choice(CODECS[:-1] if down else CODECS)
        half = codec in ("e3m0", "int4")
        fields = self.some(error_feedback=(True,) if down else (True, False))
        if half and self.coin(0.3):
            fields["search_scale"] = True
        elif (half or codec == "int8") and self.coin(0.2):
            fields["stochastic_rounding"] = True
        elif codec == "sign1" and self.coin():
            fields["rms_scale"] = True
        if self.coin(0.2):
            fields["feedback_decay"] = self.draw.choice((0.5, 1.0))
        return {"codec": codec, **fields}

    def sync(self, steps, pools):
        h = self.draw.choice([n for n in (1, 2, 3, 5, 8, 12, 20) if n <= steps])
        sync = {"h": h, **self.some(0.5, tau=range(0, min(h, 6)), alpha=(0.0, 0.3, 1.0)), **self.some(0.15, final_round=(False, True)),
                **self.some(0.7, up=(self.codec(False),), down=(self.codec(True),)),
                **self.some(fragments=({"balanced": 1}, {"layers": 1}, {"layers": 1, "order": "sequential"}, {"layers": 1, "order": "strided"}),
                            outer=({"lr": 0.3}, {"momentum": 0.0}, {"lr": 1.0, "momentum": 0.9}))}
        if sync.get("alpha") == 1 and sync.get("down", {}).get("codec") == "sign1":
            # The pools do not follow the outer parameters, and one bit follows these too slowly for outer momentum: training diverges.
            sync["alpha"] = 0.3
        if self.coin(0.15):
            sync |= {"mode": "quorum", **self.some(0.7, quorum=({"pools": self.draw.randrange(1, pools + 1), "grace_seconds": self.draw.choice((2, 5))},))}
        return sync


def level(partition, what):
    """Over which ranks it is split."""
    preset, split = partition.get("preset", "ddp"), partition.get("map")
    if split is not None:
        return split.get(what, "rank") if what == "optimizer" else split.get(what, {}).get("level", "rank")
    return "pool" if PRESETS.index(preset) >= {"optimizer": 1, "gradients": 2, "weights": 3}[what] else "rank"


def refusals(spec):
    """Fields whose words in job.proto say that the spec is refused. A field of which this says a part is named below it."""
    found, partition = set(), spec.get("partition", {})
    model, inner, offload, sync = spec["model"], spec.get("inner", {}), spec.get("offload", {}), spec["sync"]
    split, onebit = partition.get("map", {}), "onebit_adam" in inner
    order = ("rank", "pair", "node", "pool")
    weights, gradients, optimizer = (order.index(level(partition, what)) for what in ("weights", "gradients", "optimizer"))
    if onebit and (weights or gradients or optimizer or split.get("secondary") is not None or split.get("gradients", {}).get("bits", 32) <= 8):
        found.add("partition")
    found |= {"partition.map.weights.level"} if weights > optimizer else set()
    found |= {"partition.map.gradients.level"} if gradients > optimizer else set()
    bits = split.get("weights", {}).get("bits")
    if bits is not None and not weights or bits == 32 and spec["train"].get("precision") == "bfloat16":
        found.add("partition.map.weights.bits")
    if "secondary" in split and (not weights or order.index(split["secondary"].get("level", "rank")) in (0, weights)):
        found.add("partition.map.secondary")
    found |= {"partition.gathers_ahead"} if "gathers_ahead" in partition and not weights else set()
    if "synthetic" in model:
        found |= {"inner." + kind for kind in ("muon", "onebit_adam") if kind in inner}
        found |= {"offload.optimizer"} if offload else set()
    elif offload:
        found |= {"offload.optimizer"} if onebit else set()
        found |= {"offload.parameters"} if offload.get("parameters") and not weights else set()
    if onebit:
        fields = inner["onebit_adam"]
        if fields.get("var_update_scaler") and fields.get("local_step_scaler") and not fields.get("var_freeze_step"):
            found.add("inner.onebit_adam.var_freeze_step")
        if fields.get("local_step_scaler") and sync.get("mode") == "quorum":
            found.add("inner.onebit_adam.local_step_scaler")
    up = sync.get("up", {})
    if up.get("feedback_decay", 1) != 1 and not up.get("error_feedback", up.get("codec") in ("sign1", "topk2")):
        found.add("sync.up.feedback_decay")
    data = spec.get("data", {})
    for source in [data, *data.get("mixture", {}).get("sources", []), *data.get("pools", []),
                   *(source for pool in data.get("pools", []) for source in pool.get("mixture", {}).get("sources", []))]:
        if data.get("separate_documents") and "tokens" in source and not {"eos", "bos"} & set(source["tokens"]):
            found.add("data")
    return found


def repeats(spec):
    """Whether another run has the same result."""
    return spec["sync"].get("mode") != "quorum"


def unfit(spec):
    """The field for which one of its pools is set aside. Of partitions `cedar` fits all; PAIR needs an even number of ranks."""
    if "synthetic" in spec["model"]:
        return "model.synthetic" if spec["pools"]["names"] != ["alder"] else None
    partition = spec.get("partition", {})
    uses = [level(partition, what) for what in ("weights", "gradients", "optimizer")] + [partition.get("map", {}).get("secondary", {}).get("level", "rank")]
    pairs = "pair" in uses or partition.get("preset") == "frontier3"
    return "partition" if pairs and "alder" in spec["pools"]["names"] else None

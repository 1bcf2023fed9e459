"""Natural-gradient posteriors with real curvature on CIFAR-10's ResNet-20, dense and pruned, beside AdamW.

    natural.py bench                                   # milliseconds a step by the number of lanes
    natural.py train JOB.json … --data DIR --out FILE  # every job; one JSON line a configuration, as it goes
    natural.py serve QUEUE --data DIR --out FILE       # the same for jobs that arrive in a folder, compiled once

A job is {"name", "epochs", "test": bool, "augment": bool, "lanes": [{…}, …]}: a lane is one configuration and seed
(fields: `LANE`). All lanes of a job train in one program. Nothing here imports occamax.

The posterior of weight i is Normal(m, σ²), σ² = 1/(λN(h + δ + d)), the step (Shen et al. 2024; momentum .9)

    θ = m + σε      g = ∇loss(θ)      m ← m − rate · clip((momentum + δm)/(h + δ + d), ±clip)

δ is the prior's precision over N, d a damping that is no part of the prior (it may be annealed), λ a temperature of the
noise (the likelihood and the prior count λ times). h averages
    rep   g ε/σ, the reparameterised estimate, with the term that keeps h positive
    gnb   B g̃², g̃ from labels drawn from the network's own output, every tenth step
    sq    B g², squared gradients of the true labels, free
each at its own rate (rates of 0 switch one off); gnb and sq start as running means, so they keep nothing of h0.
"""
# ruff: noqa: B023, B905, C408, E731, E741

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

BATCH, CLASSES, EVERY, EVAL = 128, 10, 10, 500
HELD, VALID = 2500, 5000  # examples of the training set: for the temperature; to choose by
LANE = dict(
    name="", seed=0, adam=0.0, sgd=0.0, lr=0.2, b1=0.9, wd=0.0, drop=0.0, delta=2e-4, damp=0.0, anneal=0.0, lam=1.0,
    fan=0.0, h0=0.1, rep=0.0, gnb=0.0, sq=0.0, noise=1.0, clip=1e9, warm=500, sparsity=0.0, score="snr",
)  # fmt: skip
SCORES = ("mag", "snr", "df", "lmag")


# ---- network: ResNet-20 with filter response norm and SiLU -----------------------------------------------------------
def parts(width=16, blocks=3):
    """(name, shape, role) of every array, in the order of use."""
    out = []

    def conv(name, k, i, o, norm=True):
        out.append((name, (k, k, i, o), "conv"))
        if norm:
            out.extend([(name + ".gain", (o,), "gain"), (name + ".shift", (o,), "shift")])

    conv("stem", 3, 3, width)
    c = width
    for stage in range(3):
        for block in range(blocks):
            o, n = width * 2**stage, f"{stage}.{block}"
            conv(n + ".a", 3, c, o)
            conv(n + ".b", 3, o, o)
            if c != o:
                conv(n + ".skip", 1, c, o, norm=False)
            c = o
    return [*out, ("head", (c, CLASSES), "head"), ("head.bias", (CLASSES,), "shift")]


class Layout:
    """Where every array lies in the one vector of weights."""

    def __init__(self, width=16, blocks=3):
        self.parts, self.width, self.blocks = parts(width, blocks), width, blocks
        sizes = [int(np.prod(s)) for _, s, _ in self.parts]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.size = int(self.starts[-1])

        def each(f):
            return np.concatenate([np.full(n, f(p), np.float32) for n, p in zip(sizes, self.parts)])

        def fan(p):
            return float(np.prod(p[1][:-1])) if p[2] in ("conv", "head") else 1.0

        self.fan = each(fan)
        self.start_std = each(lambda p: {"conv": np.sqrt(2 / fan(p)), "head": np.sqrt(1 / fan(p))}.get(p[2], 0.0))
        self.gain = each(lambda p: p[2] == "gain")
        self.decayed = each(lambda p: p[2] in ("conv", "head"))
        self.prunable = each(lambda p: p[2] == "conv") > 0
        self.layer = np.concatenate([np.full(n, i) for i, n in enumerate(sizes)])

    def split(self, w):  # [lanes, size] -> arrays [lanes, ...]
        return {n: w[:, a:b].reshape(-1, *s) for (n, s, _), a, b in zip(self.parts, self.starts[:-1], self.starts[1:])}

    def join(self, arrays):
        k = len(arrays["head"])
        return jnp.concatenate([arrays[n].reshape(k, -1) for n, _, _ in self.parts], 1)


def convolve(x, w, stride=1):
    """x [lanes, B, H, W, C], w [lanes, 3, 3, C, O], zeros around: a product of rows with a banded matrix, per lane.

    16 to 64 channels do not fill a tensor core, a kernel a lane means grouped convolutions, and cuDNN's autotuning of
    these outlasted two minutes. Whole rows of pixels do: (3 rows × W × C) → (W × O) is 1536 → 512 in every stage. Ten
    times the arithmetic of stage 1, all of it in large matrix products, and nothing to autotune.
    """
    lanes, batch, height, width, c = x.shape
    o, low, wide = w.shape[-1], height // stride, width // stride
    x = jnp.pad(x.reshape(lanes, batch, height, width * c), ((0, 0), (0, 0), (1, 1), (0, 0)))
    rows = jnp.concatenate([x[:, :, dy : dy + height : stride] for dy in range(3)], -1)
    there, here = np.arange(width)[:, None], np.arange(wide) * stride
    band = [jnp.asarray(there == here + dx - 1, w.dtype)[:, None, :, None] for dx in range(3)]  # in, 1, out, 1
    matrix = sum(w[:, :, dx, None, :, None, :] * band[dx] for dx in range(3))  # lanes, dy, in, C, out, O
    y = jnp.einsum(
        "kri,kio->kro", rows.reshape(lanes, -1, 3 * width * c), matrix.reshape(lanes, 3 * width * c, wide * o)
    )
    return y.reshape(lanes, batch, low, wide, o)


def norm(x, gain, shift, skip=None):
    """Filter response norm over the image, in float32, then SiLU; the skip connection comes in between."""
    z = x.astype(jnp.float32)
    z = z * jax.lax.rsqrt(jnp.mean(z * z, (2, 3), keepdims=True) + 1e-6)
    z = z * gain[:, None, None, None] + shift[:, None, None, None]
    if skip is not None:
        z = z + skip.astype(jnp.float32)
    return jax.nn.silu(z).astype(x.dtype)


def network(layout, arrays, x, dtype=jnp.bfloat16, dropped=1.0):
    """x [lanes, B, 32, 32, 3] -> logits [lanes, B, classes]; `dropped` multiplies the features before the head."""
    p = arrays
    q = {n: a.astype(dtype) if a.ndim == 5 else a for n, a in p.items()}
    x = norm(convolve(x.astype(dtype), q["stem"]), p["stem.gain"], p["stem.shift"])
    for stage in range(3):
        for block in range(layout.blocks):
            n, s = f"{stage}.{block}", 2 if stage and not block else 1
            y = norm(convolve(x, q[n + ".a"], s), p[n + ".a.gain"], p[n + ".a.shift"])
            skip = x
            if n + ".skip" in p:
                skip = jnp.einsum("kbhwc,kco->kbhwo", x[:, :, ::s, ::s], q[n + ".skip"][:, 0, 0])
            x = norm(convolve(y, q[n + ".b"]), p[n + ".b.gain"], p[n + ".b.shift"], skip)
    z = x.astype(jnp.float32).mean((2, 3)) * dropped
    return jnp.einsum("kbc,kco->kbo", z, p["head"]) + p["head.bias"][:, None, :]


def cross_entropy(logits, y):  # [lanes, B, classes], [lanes, B] -> [lanes]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1)[..., 0].mean(-1)


# ---- training: one program for every kind of lane --------------------------------------------------------------------
def start(layout, lane):
    key = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(100), s))(lane["seed"])
    m = jax.vmap(lambda k: jax.random.normal(k, (layout.size,)))(key) * layout.start_std + layout.gain
    zero = jnp.zeros_like(m)
    return dict(m=m, g=zero, v=zero, h=zero + lane["h0"][:, None], mask=jnp.ones(m.shape, bool), t=jnp.zeros(()))


def precision(layout, lane, h, progress):
    """h + δ + d, and δ alone; with `fan` = 1 both are proportional to the fan-in (their value at a fan-in of 576).

    d falls to d · exp(−anneal) from progress 0 to 1: what is left of h0 in an average that forgets, said openly.
    """
    damp = lane["damp"][:, None] * jnp.exp(-lane["anneal"][:, None] * progress)
    scale = jnp.where(layout.decayed > 0, (layout.fan / 576) ** lane["fan"][:, None], 1.0)
    delta = lane["delta"][:, None] * scale
    return h + delta + damp * scale, delta


def deviation(layout, lane, h, count, progress):
    p, _ = precision(layout, lane, h, progress)
    return lane["noise"][:, None] / jnp.sqrt(lane["lam"][:, None] * count * p)


def moved(x, key, pad=4):
    """Flips and crops of [lanes, B, H, W, C] with zeros around, one draw an example."""
    lanes, batch, height, width, _ = x.shape
    k1, k2 = jax.random.split(key)
    shift = jax.random.randint(k1, (2, lanes, batch, 1), -pad, pad + 1)
    at = [shift[i] + jnp.arange(n) for i, n in enumerate((height, width))]
    inside = [((a >= 0) & (a < n)).astype(x.dtype) for a, n in zip(at, (height, width))]
    at = [jnp.clip(a, 0, n - 1) for a, n in zip(at, (height, width))]
    x = jnp.take_along_axis(x, at[0][..., :, None, None], 2)
    x = jnp.take_along_axis(x, at[1][..., None, :, None], 3)
    x = x * inside[0][..., :, None, None] * inside[1][..., None, :, None]
    return jnp.where(jax.random.bernoulli(k2, 0.5, (lanes, batch, 1, 1, 1)), x[..., ::-1, :], x)


def make_epoch(layout, steps, dtype, look=True):
    def images(data, rows, key, augment):  # rows [lanes, B] -> [lanes, B, 32, 32, 3]
        x = (data["x"][rows].astype(jnp.float32) - data["mean"]) / data["std"]
        return moved(x, key) if augment else x, data["y"][rows]

    def step(lane, data, total, augment, state, inputs):
        """One step; or, where `own` is 1, a look at the curvature with labels that the network draws itself."""
        rows, i, own = inputs
        x, y = images(data, rows, jax.random.fold_in(jax.random.key(13), i), augment)
        fold = lambda s: jax.random.split(jax.random.fold_in(jax.random.fold_in(jax.random.key(7), s), 2 * i + own))
        keys = jax.vmap(fold)(lane["seed"])
        m, h, mask = state["m"], state["h"], state["mask"]
        eps = jax.vmap(lambda k: jax.random.normal(k, (layout.size,)))(keys[:, 0])
        sd = deviation(layout, lane, h, data["count"], i / total)
        theta = (m + sd * eps) * mask

        kept = jax.random.uniform(jax.random.fold_in(jax.random.key(17), i), (*rows.shape, layout.parts[-2][1][0]))
        dropped = (kept >= lane["drop"][:, None, None]) / (1 - lane["drop"][:, None, None])

        def loss(arrays):
            z = network(layout, arrays, x, dtype, dropped)
            drawn = jax.vmap(jax.random.categorical)(keys[:, 1], jax.lax.stop_gradient(z))
            each = cross_entropy(z, jnp.where(own > 0, drawn, y))
            return each.sum(), each

        g, each = jax.grad(loss, has_aux=True)(layout.split(theta))
        g = layout.join(g) * mask
        col = {k: v[:, None] for k, v in lane.items()}
        t = state["t"] + 1
        # curvature
        hat = g * eps * jnp.where(sd > 0, 1 / jnp.maximum(sd, 1e-12), 0)
        p, delta = precision(layout, lane, h, i / total)
        h_rep = h + col["rep"] * (hat - h) + 0.5 * col["rep"] ** 2 * (h - hat) ** 2 / p
        rate_sq = jnp.where(col["sq"] > 0, jnp.maximum(col["sq"], 1 / t), 0)
        h_new = h_rep + rate_sq * (BATCH * g * g - h_rep)
        rate_gnb = jnp.where(col["gnb"] > 0, jnp.maximum(col["gnb"], EVERY / state["t"]), 0)
        h_own = h + rate_gnb * (BATCH * g * g - h)
        # mean
        gm = col["b1"] * state["g"] + (1 - col["b1"]) * g
        v = 0.999 * state["v"] + 0.001 * g * g
        ghat = gm / (1 - col["b1"] ** t)
        p, delta = precision(layout, lane, h_new, i / total)
        natural = (ghat + delta * layout.decayed * m) / p
        natural = jnp.clip(natural, -col["clip"], col["clip"])
        adam = ghat / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8) + col["wd"] * layout.decayed * m
        done = (i - lane["warm"]) / (total - lane["warm"])
        rate = lane["lr"] * jnp.where(i < lane["warm"], (i + 1) / lane["warm"], 0.5 * (1 + jnp.cos(jnp.pi * done)))
        sgd = ghat + col["wd"] * layout.decayed * m
        move = jnp.where(col["adam"] > 0, adam, jnp.where(col["sgd"] > 0, sgd, natural))
        new = (m - rate[:, None] * move) * mask
        stepped, looked = dict(m=new, g=gm, v=v, h=h_new, mask=mask, t=t), {**state, "h": h_own}
        return jax.tree.map(lambda a, b: jnp.where(own > 0, a, b), looked, stepped), each * (own == 0)

    @partial(jax.jit, static_argnums=5)
    def epoch(state, lane, data, e, total, augment):
        def order(seed):  # whole passes in random order
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(9), seed), e)
            n, need = data["rows"].shape[0], steps * BATCH
            inside = jnp.arange(n) < data["count"]
            laps = [jax.random.uniform(jax.random.fold_in(key, j), (n,)) for j in range(-(-need // 42500))]
            laps = jnp.stack([jnp.argsort(jnp.where(inside, u, 2.0)) for u in laps])
            take = jnp.arange(need)
            return data["rows"][laps[take // data["count"], take % data["count"]]].reshape(steps, BATCH)

        rows = jax.vmap(order, out_axes=1)(lane["seed"])  # steps, lanes, B
        if look:
            place = jnp.stack(
                [jnp.minimum(j, EVERY - 1) + jnp.arange(0, steps, EVERY) for j in range(EVERY + 1)], 1
            ).reshape(-1)
            own = jnp.tile((jnp.arange(EVERY + 1) == EVERY).astype(int), steps // EVERY)
        else:
            place, own = jnp.arange(steps), jnp.zeros(steps, int)
        one = partial(step, lane, data, total, augment)
        state, each = jax.lax.scan(one, state, (rows[place], e * steps + place, own))
        return state, each.sum(0) / steps

    return epoch


def make_prune(layout):
    @jax.jit
    def prune(state, lane, count, share, progress):
        m, mask = state["m"], state["mask"]
        p, _ = precision(layout, lane, state["h"], progress)
        zero, _ = precision(layout, lane, jnp.zeros_like(state["h"]), progress)
        snr = m * m * p * count * lane["lam"][:, None]
        layer = jax.ops.segment_sum((m * m).T, layout.layer, int(layout.layer[-1]) + 1)
        size = jnp.bincount(layout.layer, length=int(layout.layer[-1]) + 1)
        lmag = jnp.abs(m) / jnp.sqrt(layer / size[:, None] + 1e-12)[layout.layer].T
        keep = jnp.stack([jnp.abs(m), snr, 0.5 * snr - 0.5 * jnp.log(p / zero), lmag])
        keep = jnp.take_along_axis(keep, lane["score"][None, :, None].astype(int), 0)[0]
        keep = jnp.where(layout.prunable, jnp.where(mask, keep, -jnp.inf), jnp.inf)
        rank = jnp.argsort(jnp.argsort(keep, 1), 1)
        new = rank >= jnp.round(share[:, None] * layout.prunable.sum()).astype(int)
        new = jnp.where(share[:, None] > 0, new, mask)
        return {**state, "mask": new, "m": m * new}

    return prune


# ---- figures ---------------------------------------------------------------------------------------------------------
def make_outputs(layout, dtype):
    @jax.jit
    def outputs(state, lane, data, x, draw):
        """Logits [lanes, n, classes] of x [n, 32, 32, 3] for draw 1, 2, …; draw 0 is the mean network."""
        x = ((x.astype(jnp.float32) - data["mean"]) / data["std"]).astype(dtype)
        x = jnp.broadcast_to(x, (len(state["m"]), *x.shape))
        sd = deviation(layout, lane, state["h"], data["count"], 1.0) * (draw > 0)
        eps = jax.random.normal(jax.random.fold_in(jax.random.key(11), draw), state["m"].shape)
        return network(layout, layout.split((state["m"] + sd * eps) * state["mask"]), x, dtype)

    return outputs


TEMPERATURES = np.exp(np.linspace(-1.2, 1.6, 85)).astype(np.float32)


@jax.jit
def nlls(logits, y):  # [draws, lanes, n, classes], [n] -> [temperatures, lanes]
    def one(t):
        p = jax.nn.softmax(logits / t).mean(0)
        return -jnp.log(jnp.take_along_axis(p, y[None, :, None], -1)[..., 0] + 1e-12).mean(-1)

    return jax.lax.map(one, jnp.asarray(TEMPERATURES))


@jax.jit
def predictive(logits, t):  # t [lanes]
    return jax.nn.softmax(logits / t[:, None, None]).mean(0)


def ece(p, y, bins=20):
    confidence, hit = p.max(-1), p.argmax(-1) == y
    order = np.argsort(confidence, kind="stable")
    return sum(abs(confidence[b].sum() - hit[b].sum()) for b in np.array_split(order, bins)) / len(y)


def figures(p, y):
    p = np.asarray(p, np.float64)
    nll = -np.log(p[np.arange(len(y)), y] + 1e-12).mean()
    return [round(float(v), 4) for v in ((p.argmax(1) == y).mean(), nll, ece(p, y))]


class Study:
    """The data on the device and the compiled programs; `train` runs one job."""

    def __init__(self, args):
        self.args, self.layout = args, Layout(args.width, args.blocks)
        dtype = jnp.bfloat16 if args.dtype == "bfloat16" else jnp.float32
        self.epoch = make_epoch(self.layout, args.steps, dtype, look=not args.no_look)
        self.prune, self.outputs = make_prune(self.layout), make_outputs(self.layout, dtype)
        folder = Path(args.data) / "cifar-10-batches-bin"
        files = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
        records = np.concatenate([np.frombuffer((folder / f).read_bytes(), np.uint8).reshape(-1, 3073) for f in files])
        x, y = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0].astype(np.int32)
        if args.size < 32:  # trials on a CPU
            s = 32 // args.size
            x = np.ascontiguousarray(x).reshape(-1, args.size, s, args.size, s, 3)[:, :, 0, :, 0]
        self.xt, self.yt = x[50000:], y[50000:]  # test: read by jobs with "test" alone
        x, y = x[:50000], y[:50000]
        order = np.random.default_rng(0).permutation(50000)  # training first, then validation, then held out
        self.order, self.x, self.y = order, x, y
        self.held, self.valid = order[-HELD:], order[-HELD - VALID : -HELD]
        pixels = x[order[: -HELD - VALID]].astype(np.float32)
        self.base = dict(
            x=jnp.asarray(x), y=jnp.asarray(y), rows=jnp.asarray(order[:-HELD]),
            mean=jnp.asarray(pixels.mean((0, 1, 2))), std=jnp.asarray(pixels.std((0, 1, 2))),
        )  # fmt: skip

    def logits(self, state, lane, data, x, draws):
        pad = -len(x) % EVAL
        x_ = np.concatenate([x, x[:pad]]) if pad else x
        chunks = [jnp.asarray(x_[i : i + EVAL]) for i in range(0, len(x_), EVAL)]
        numbers = range(1, draws + 1) if draws else [0]
        out = [jnp.concatenate([self.outputs(state, lane, data, c, d) for c in chunks], 1) for d in numbers]
        return jnp.stack(out)[:, :, : len(x)]

    def judge(self, state, lane, data, draws, test):
        """Per lane: temperature from the held-out examples, figures with and without it."""
        held = self.logits(state, lane, data, self.x[self.held], draws)
        curve = np.asarray(nlls(held, jnp.asarray(self.y[self.held])))
        best = TEMPERATURES[curve.argmin(0)]
        sets = {} if test else {"val": (self.x[self.valid], self.y[self.valid])}
        if test:
            sets["test"] = (self.xt, self.yt)
        out = [dict(T=round(float(t), 3), held_nll=round(float(c), 4)) for t, c in zip(best, curve.min(0))]
        for name, (x, y) in sets.items():
            z = self.logits(state, lane, data, x, draws)
            scaled, raw = (np.asarray(predictive(z, jnp.asarray(t))) for t in (best, np.ones_like(best)))
            for k in range(len(out)):
                out[k][name], out[k][name + "_raw"] = figures(scaled[k], y), figures(raw[k], y)
        return out

    def quick(self, state, lane, data):
        """Validation accuracy and held-out NLL at its best temperature, of the mean network."""
        held = self.logits(state, lane, data, self.x[self.held], 0)
        nll = np.asarray(nlls(held, jnp.asarray(self.y[self.held]))).min(0)
        acc = np.asarray((held[0].argmax(-1) == jnp.asarray(self.y[self.held])).mean(-1))
        return nll, acc

    def describe(self, state, lane, data, k):
        """Quantiles of h, σ, |m| by kind of array, and what is left of every layer."""
        m, h, mask = (np.asarray(state[n][k]) for n in ("m", "h", "mask"))
        sd = np.asarray(deviation(self.layout, lane, state["h"], data["count"], 1.0)[k])
        groups = {}
        for (n, _, role), a, b in zip(self.layout.parts, self.layout.starts[:-1], self.layout.starts[1:]):
            if role in ("conv", "head"):
                group = "stage" + n[0] if n[0].isdigit() else n
                groups.setdefault(group, []).append(np.arange(a, b)[mask[a:b]])
        out = {}
        for n, places in groups.items():
            i = np.concatenate(places)
            if len(i):
                q = lambda v: [float(f"{u:.3g}") for u in np.quantile(v[i], [0.1, 0.5, 0.9])]
                out[n] = dict(left=len(i), h=q(h), sd=q(sd), m=q(np.abs(m)))
        return out

    def train(self, job):
        began, args = time.time(), self.args
        lanes = [{**LANE, **l} for l in job["lanes"]]
        assert len(lanes) == args.lanes, f"{job['name']}: {len(lanes)} lanes, compiled for {args.lanes}"
        as_number = lambda k, v: SCORES.index(v) if k == "score" else v
        lane = {k: jnp.asarray([as_number(k, l[k]) for l in lanes], jnp.float32) for k in LANE if k != "name"}
        lane["seed"] = lane["seed"].astype(jnp.int32)
        count = 50000 - HELD - (0 if job.get("test") else VALID)
        data = {**self.base, "count": jnp.asarray(count)}
        state, epochs = start(self.layout, lane), job.get("epochs", 50)
        target = np.array([l["sparsity"] for l in lanes])
        total = jnp.asarray(float(epochs * args.steps))
        curve, early, best = [], None, np.full(len(lanes), np.inf)
        for e in range(epochs):
            f = e / epochs
            if target.any() and 0.1 <= f <= 0.8:
                share = target * (1 - (1 - min(1, (f - 0.1) / 0.65)) ** 3)
                state = self.prune(state, lane, data["count"], jnp.asarray(share, jnp.float32), f)
            state, each = self.epoch(state, lane, data, jnp.asarray(e), total, bool(job.get("augment")))
            if (e + 1) % max(1, epochs // 10) == 0 or e == 0:
                nll, acc = self.quick(state, lane, data)
                each = np.asarray(each)
                curve.append(
                    [[e + 1, *(round(float(v), 4) for v in (each[k], nll[k], acc[k]))] for k in range(len(lanes))]
                )
                say = " ".join(f"{each[k]:.3f}/{nll[k]:.3f}/{acc[k]:.3f}" for k in range(len(lanes)))
                print(f"{job['name']} {e + 1}/{epochs} {time.time() - began:.0f}s {say}", flush=True)
                fit = (target == 0) | (f >= 0.8)
                better = jnp.asarray(fit & (nll < best))[:, None]
                early = dict(state) if early is None else early
                early = {n: jnp.where(better, state[n], early[n]) if n != "t" else state[n] for n in state}
                best = np.where(fit, np.minimum(best, nll), best)
        jax.block_until_ready(state["m"])
        trained = time.time() - began
        mean = self.judge(state, lane, data, 0, job.get("test"))
        draw = self.judge(state, lane, data, args.draws, job.get("test"))
        stop = self.judge(early, lane, data, 0, job.get("test"))
        prunable = self.layout.prunable
        lines = []
        for k, l in enumerate(lanes):
            kept = np.asarray(state["mask"][k])
            lines.append(dict(
                job=job["name"], config=l, seed=l["seed"], epochs=epochs, steps=args.steps, batch=BATCH, examples=count,
                sparsity=round(1 - float(kept[prunable].mean()), 4), sparsity_all=round(1 - float(kept.mean()), 4),
                mean=mean[k], draws=draw[k] if l["noise"] else None, early=stop[k] if not l["noise"] else None,
                augment=bool(job.get("augment")),
                curve=[c[k] for c in curve], layers=self.describe(state, lane, data, k), weights=self.layout.size,
                seconds=round(trained, 1), seconds_all=round(time.time() - began, 1), lanes=len(lanes),
                dtype=args.dtype, device=jax.devices()[0].device_kind,
                versions=dict(python=sys.version.split()[0], jax=jax.__version__,
                numpy=np.__version__), command=" ".join(["natural.py", *(Path(w).name for w in sys.argv[1:])]),
            ))  # fmt: skip
        with open(args.out, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        which = "test" if job.get("test") else "val"
        for l in lines:
            d, s = l["draws"], l["early"]
            print(f"= {l['job']} {l['config']['name']:<22} s{l['seed']} sp {l['sparsity']:.3f}"
                  f" mean {l['mean'][which]} T{l['mean']['T']}"
                  + (f" draws {d[which]} T{d['T']} raw {d[which + '_raw']}" if d else "")
                  + (f" early {s[which]}" if s else ""), flush=True)  # fmt: skip
        print(f"# {job['name']} {trained:.1f}s + {time.time() - began - trained:.1f}s", flush=True)


# ---- speed -----------------------------------------------------------------------------------------------------------
def bench(args):
    """Gradient steps on random images: milliseconds a step and a lane."""
    layout, steps = Layout(args.width, args.blocks), 20
    dtype = jnp.bfloat16 if args.dtype == "bfloat16" else jnp.float32
    for lanes in (int(v) for v in args.variants.split()):
        loss = lambda w, x: cross_entropy(
            network(layout, layout.split(w), x, dtype), jnp.zeros((lanes, BATCH), int)
        ).sum()
        body = lambda w, key: (w - 1e-3 * jax.grad(loss)(w, jax.random.normal(key, (lanes, BATCH, 32, 32, 3))), None)
        w = np.random.default_rng(0).normal(size=(lanes, layout.size)) * layout.start_std + layout.gain
        w, began = jnp.asarray(w, jnp.float32), time.time()
        run = jax.jit(lambda w: jax.lax.scan(body, w, jax.random.split(jax.random.key(0), steps))[0]).lower(w).compile()
        compiled, took = time.time() - began, []
        for _ in range(args.repeat):
            began = time.time()
            jax.block_until_ready(run(w))
            took.append((time.time() - began) / steps * 1e3)
        ms = float(np.median(took))
        print(f"lanes {lanes}: {ms:.2f} ms a step, {ms / lanes:.3f} a lane, compiled in {compiled:.0f} s", flush=True)


def serve(args):
    """Jobs of QUEUE/*.json in order of name, until a file `stop` is there; done jobs get the ending .done."""
    study, queue = Study(args), Path(args.jobs[0])
    print("ready", flush=True)
    while not (queue / "stop").exists():
        found = sorted(queue.glob("*.json"))
        if not found:
            time.sleep(0.2)
            continue
        try:
            study.train(json.loads(found[0].read_text()))
        except Exception as error:  # the next job may be sound
            print(f"! {found[0].name}: {error!r}"[:2000], flush=True)
        found[0].rename(found[0].with_suffix(".done"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("verb", choices=["bench", "train", "serve"])
    p.add_argument("jobs", nargs="*")
    p.add_argument("--data", default="carry/data")
    p.add_argument("--out", default="natural.jsonl")
    p.add_argument("--lanes", type=int, default=8)
    p.add_argument("--size", type=int, default=32, help="pixels of an image's side")
    p.add_argument("--steps", type=int, default=500, help="of an epoch")
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--blocks", type=int, default=3)
    p.add_argument("--draws", type=int, default=32)
    p.add_argument("--no-look", action="store_true", help="no pass with the network's own labels (`gnb` needs it)")
    p.add_argument("--dtype", default="bfloat16")
    p.add_argument("--variants", default="1 4 8")
    p.add_argument("--repeat", type=int, default=5)
    args = p.parse_args()
    if args.verb == "bench":
        bench(args)
    elif args.verb == "serve":
        serve(args)
    else:
        study = Study(args)
        for path in args.jobs:
            study.train(json.loads(Path(path).read_text()))


if __name__ == "__main__":
    main()

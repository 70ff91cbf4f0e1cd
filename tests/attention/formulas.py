"""The attention matrix of every name that `attn=` accepts, straight from its formula, in numpy.

`FORMULAS[name](attn, given, head, q, k, allowed)` is the matrix [l s] of one item and head:

  attn     the mechanism, for its parameters and what it has drawn
  given    the parameters that differ from their defaults
  q, k     queries [l e] and keys [s e]
  allowed  pairs that the layer may use [l s]: all, or causal those with j <= i
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit, softmax

Array = np.ndarray


def of_scores(scores: Array, allowed: Array) -> Array:
    """Softmax over the allowed keys of each row."""
    return softmax(np.where(allowed, scores, -np.inf), axis=1)


def scaled(q: Array, k: Array) -> Array:
    return q @ k.T / math.sqrt(q.shape[1])


def own(attn, name, head) -> Array:
    """A parameter or buffer of one head."""
    return getattr(attn, name).detach().double().numpy()[head]


def full(attn, given, head, q, k, allowed):
    return of_scores(q @ k.T * (given.get("scale") or len(q[0]) ** -0.5), allowed)


def dot(attn, given, head, q, k, allowed):
    return of_scores(q @ k.T, allowed)


def additive(attn, given, head, q, k, allowed):
    return of_scores(np.tanh(q[:, None] + k) @ own(attn, "weight", head), allowed)


def bilinear(attn, given, head, q, k, allowed):
    return of_scores(q @ own(attn, "weight", head) @ k.T, allowed)


def relu(attn, given, head, q, k, allowed):
    positive = np.maximum(scaled(q, k), 0) * allowed
    return positive / (positive.sum(1, keepdims=True) + 1e-6)


def hard(attn, given, head, q, k, allowed):
    best = np.where(allowed, scaled(q, k), -np.inf).argmax(1)
    return np.eye(len(k))[best]


def topk(attn, given, head, q, k, allowed):
    scores = np.where(allowed, scaled(q, k), -np.inf)
    larger = (scores[:, None, :] > scores[:, :, None]).sum(2)
    return of_scores(scores, allowed & (larger < given.get("k", 16)))


def synthesizer(attn, given, head, q, k, allowed):
    return of_scores(own(attn, "scores", head)[: len(q), : len(k)], allowed)


def synthesizer_dense(attn, given, head, q, k, allowed):
    return of_scores(np.maximum(q @ own(attn, "hidden", head), 0) @ own(attn, "keys", head)[:, : len(k)], allowed)


def linformer(attn, given, head, q, k, allowed):
    mixed = own(attn, "proj_k" if given.get("share_kv") else "proj_v", head)
    return softmax(scaled(q, own(attn, "proj_k", head) @ k), axis=1) @ mixed


def pooled(attn, given, head, q, k, allowed):
    n, ratio = len(k), given.get("ratio", 4)
    if "pyramid" in given:
        bins = [(math.floor(r * n / c), math.ceil((r + 1) * n / c)) for c in given["pyramid"] for r in range(c)]
    else:
        bins = [(start, min(start + ratio, n)) for start in range(0, n, ratio)]
    pooling = np.zeros((len(bins), n))
    for row, (start, stop) in zip(pooling, bins, strict=True):
        is_conv = given.get("kind") == "conv"
        row[start:stop] = own(attn, "kernel", head)[: stop - start] if is_conv else 1 / (stop - start)
    return softmax(scaled(q, pooling @ k), axis=1) @ pooling


def over_sums(products, allowed):
    """Products divided by their sums; the mean of the allowed values where a sum is 0."""
    products = np.where(allowed, products, 0.0)
    sums = products.sum(1, keepdims=True)
    return np.where(sums == 0, allowed / allowed.sum(1, keepdims=True), products / np.where(sums == 0, 1, sums))


MAPS: dict[str, Callable[[Array], Array]] = {
    "elu": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp,
    "softmax": lambda x: softmax(x, axis=1),
}


def linear(attn, given, head, q, k, allowed):
    feature_map = MAPS[given.get("feature_map", "elu")]
    return over_sums(feature_map(q) @ feature_map(k).T, allowed)


def efficient(attn, given, head, q, k, allowed):
    mix = softmax(q, axis=1)
    if given.get("normaliser") == "row" and attn.spec.causal:
        return over_sums(mix @ np.exp(k - k.max()).T, allowed)
    over_keys = (softmax(np.where(row[:, None], k, -np.inf), axis=0) for row in allowed)
    return np.stack([features @ keys.T for features, keys in zip(mix, over_keys, strict=True)])


def taylor(attn, given, head, q, k, allowed):
    q, k = (x / np.where((length := np.linalg.norm(x, axis=1, keepdims=True)) == 0, 1, length) for x in (q, k))
    return over_sums(1 + q @ k.T, allowed)


def performer(attn, given, head, q, k, allowed):
    """In logarithms, with the largest product of each row taken out."""
    e = q.shape[1]
    w, n = attn.directions.double().numpy(), given.get("n_features") or max(1, math.ceil(e * math.log(e)))

    def features(x):
        y = x * x.shape[1] ** -0.25
        half_square = (y * y).sum(1, keepdims=True) / 2
        if attn.kind == "positive":
            return np.ones((len(x), n)), y @ w.T - half_square - math.log(n) / 2
        waves = np.concatenate([np.cos(y @ w.T), np.sin(y @ w.T)], axis=1)
        return np.sign(waves), np.log(np.abs(waves)) + half_square - math.log(n) / 2

    (sign_q, log_q), (sign_k, log_k) = features(q), features(k)
    logs = np.where(allowed[:, :, None], log_q[:, None] + log_k, -np.inf)
    terms = (sign_q[:, None] * sign_k * np.exp(logs - logs.max((1, 2), keepdims=True))).sum(2)
    return terms / terms.sum(1, keepdims=True)


def em(attn, given, head, q, k, allowed):
    bases = attn.bases[head].numpy()
    for _ in range(attn.n_steps):
        read = bases
        shares = softmax(k @ read.T, axis=1)
        columns = shares / shares.sum(0)
        bases = columns.T @ k
        if given.get("unit_bases", True):
            bases = bases / np.linalg.norm(bases, axis=1, keepdims=True)
    return softmax(q @ read.T, axis=1) @ columns.T


def vq(attn, given, head, q, k, allowed):
    codes = attn.codes[head].numpy()
    nearest = codes[((k[:, None] - codes) ** 2).sum(2).argmin(1)]
    return of_scores(scaled(q, nearest), allowed)


def autocorrelation(attn, given, head, q, k, allowed):
    length, matrix = len(q), np.zeros(allowed.shape)
    r = np.array([sum(q[i] @ k[i - t] for i in range(length)) / q.shape[1] for t in range(length)])
    delays = np.argsort(-r)[: max(1, math.floor(given.get("factor", 3) * math.log(length)))]
    for t, share in zip(delays, softmax(r[delays]), strict=True):
        for i in range(length):
            matrix[i, (i + t) % length] = share
    return matrix


def fourier(attn, given, head, q, k, allowed):
    """Column j is the inverse transform of what a value of 1 at key j, and 0 elsewhere, becomes."""
    f, g, matrix = attn.modes_q.numpy(), attn.modes_k.numpy(), np.zeros(allowed.shape)

    def at(x, modes):
        return np.array([sum(row * np.exp(-2j * np.pi * m * i / len(x)) for i, row in enumerate(x)) for m in modes])

    shares = softmax(np.abs(at(q, f) @ at(k, g).T) / math.sqrt(len(q) * k.size), axis=1)
    for j in range(len(k)):
        spectrum = np.zeros(len(q) // 2 + 1, dtype=complex)
        spectrum[f] = shares @ np.exp(-2j * np.pi * g * j / len(k))
        matrix[:, j] = np.fft.irfft(spectrum, n=len(q)) * len(q) / len(k)
    return matrix


def gated_delta(attn, given, head, q, k, allowed):
    """The rule of the paper with a one-hot value for each key."""
    write, forget, keep = (own(attn, name, head) for name in ("write", "forget", "keep"))
    state, rows, one = np.zeros((len(k), q.shape[1])), [], np.eye(q.shape[1])
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    for t, key in enumerate(k):
        unit = key / np.linalg.norm(key)
        a, b = expit(forget @ key + keep), expit(write @ key)
        state = a * state @ (one - b * np.outer(unit, unit)) + b * np.outer(np.eye(len(k))[t], unit)
        rows.append(state @ q[t] if attn.spec.causal else None)
    return np.stack(rows) if attn.spec.causal else q @ state.T


def ahead(q, k):
    """j - i."""
    return np.arange(len(k)) - np.arange(len(q))[:, None]


def spread(length: int, count: int) -> list[int]:
    """round(linspace(0, length - 1, count)) in whole numbers: Python's round takes halves to even."""
    return [0] if count == 1 else [round(n * (length - 1) / (count - 1)) for n in range(count)]


def of_globals(given, length: int, default: int) -> Array:
    """Rows and columns of the global positions."""
    chosen = given.get("global_positions", spread(length, given.get("n_global", default)))
    is_global = np.isin(np.arange(length), [place % length for place in chosen])
    return is_global | is_global[:, None]


def truncated(attn, given, head, q, k, allowed):
    return of_scores(scaled(q, k), allowed & (abs(ahead(q, k)) <= given.get("window", 24)))


def log_sparse(attn, given, head, q, k, allowed):
    distance = abs(ahead(q, k))
    near = (distance <= given.get("window", 0)) | np.isin(distance, [2**t for t in range(20)])
    return of_scores(scaled(q, k), allowed & near)


def longformer(attn, given, head, q, k, allowed):
    of_layer = given.get("window", 32)
    window = of_layer[min(attn.spec.layer_index, len(of_layer) - 1)] if isinstance(of_layer, list) else of_layer
    step = given.get("dilation", 1)
    step = step[head] if isinstance(step, list) else step
    distance = abs(ahead(q, k))
    near = (distance <= step * (window // 2)) & (distance % step == 0)
    return of_scores(scaled(q, k), allowed & (near | of_globals(given, len(k), 0)))


def sparse(attn, given, head, q, k, allowed):
    stride, c, length = given.get("stride") or round(math.sqrt(len(k))), given.get("c", 1), len(k)
    i, j = np.arange(length)[:, None], np.arange(length)
    if attn.pattern == "strided":
        first, second = abs(i - j) <= stride, (i - j) % stride == 0
    else:
        first, second = i // stride == j // stride, (j % stride >= stride - c) & (i >= 0)
    first, second = first & allowed, second & allowed
    second |= ~second.any(1, keepdims=True) & (i == j)
    chosen = {
        "split": first if 2 * head < attn.spec.n_heads else second,
        "merge": first | second,
        "alternate": second if attn.spec.layer_index % 2 else first,
    }
    return of_scores(scaled(q, k), chosen[given.get("heads", "split")])


def with_random(attn, given, head, q, k):
    """Window and random keys of Big Bird."""
    near = abs(ahead(q, k)) <= given.get("window", 16) // 2
    for row, keys in zip(near, attn.random_keys[head].tolist(), strict=True):
        row[[key for key in keys if key >= 0]] = True
    return near


def bigbird(attn, given, head, q, k, allowed):
    near = with_random(attn, given, head, q, k) | of_globals(given, len(k), 2)
    return of_scores(scaled(q, k), allowed & near)


def with_summaries(attn, head, q, k, near):
    """P_local + P_global U, with the learned queries g: U = softmax(g k^T) reads the sequence."""
    if attn.g is None:
        return of_scores(scaled(q, k), near)
    reading = softmax(scaled(own(attn, "g", head), k), axis=1)
    scores = np.concatenate([np.where(near, scaled(q, k), -np.inf), scaled(q, reading @ k)], axis=1)
    shares = softmax(scores, axis=1)
    return shares[:, : len(k)] + shares[:, len(k) :] @ reading


def etc(attn, given, head, q, k, allowed):
    return with_summaries(attn, head, q, k, abs(ahead(q, k)) <= given.get("radius", 16))


def bigbird_etc(attn, given, head, q, k, allowed):
    return with_summaries(attn, head, q, k, with_random(attn, given, head, q, k))


def reformer(attn, given, head, q, k, allowed):
    n_buckets = given.get("n_buckets") or 2 * max(1, round(len(k) / 64))
    near, m = np.eye(len(k), dtype=bool), -(-2 * len(k) // n_buckets)
    places = np.arange(len(k))
    for rotation in attn.rotations.double().numpy() if n_buckets > 1 else [None]:

        def bucket(x, r=rotation):
            return np.zeros(len(x)) if r is None else np.concatenate([x @ r, -x @ r], axis=1).argmax(1)

        of_q, of_k = bucket(q), bucket(k)
        rank = np.array([(of_k[:j] == of_k[j]).sum() for j in places])
        place = np.array([max(0, (of_k[: i + 1] == of_q[i]).sum() - 1) for i in places])
        near |= (of_q[:, None] == of_k) & (abs(rank // m - (place // m)[:, None]) <= 1)
        if rotation is None:
            near |= True
    return of_scores(scaled(q, k), allowed & near)


def sparsity(q, k, index, *, seen, mean="sample", zero_in_max=False) -> Array:
    """M of each query; `index` [l u] may repeat keys, None: eq. 2 over every key. `seen` are the pairs that count."""
    result = np.empty(len(q))
    for i in range(len(q)):
        keys = [j for j in (range(len(k)) if index is None else index[i]) if seen[i, j]]
        zeros = [0.0] if zero_in_max and index is not None and {*np.flatnonzero(seen[i])} - {*keys} else []
        if not keys:
            result[i] = 0.0 if zeros else -np.inf
            continue
        products = k[keys] @ q[i] / (math.sqrt(len(q[i])) if index is None else 1)
        peak = np.logaddexp.reduce(products) if index is None else max([*products, *zeros])
        result[i] = peak - products.sum() / (len(k) if mean == "zero_fill" else len(keys))
    return result


def counted(given, n: int, c: int) -> int:
    """c ceil(ln n), or c ln n rounded up once: 3 ln 96 is 15 or 14."""
    return min(n, max(1, math.ceil(c * math.log(n)) if given.get("rounding") == "ln" else c * math.ceil(math.log(n))))


def prob(attn, given, head, q, k, allowed, index=...):
    """With the sample of keys of eval mode, or the given one: evenly spaced unless each query has its own."""
    factor, sampling = given.get("factor", 5), given.get("sampling", "shared")
    n_sample = counted(given, len(k), given.get("sample_factor", factor))
    if index is ...:
        keys = range(len(k)) if sampling == "all" else spread(len(k), n_sample)
        index = attn.eval_index.numpy() if sampling == "per_query" else np.tile(keys, (len(q), 1))
        assert index.shape == (len(q), len(k) if sampling == "all" else n_sample) or sampling == "lse"
        index = None if sampling == "lse" else index
    seen = allowed if given.get("causal_selection", True) else np.ones_like(allowed)
    options = {name: given[name] for name in ("mean", "zero_in_max") if name in given}
    order = np.argsort(-sparsity(q, k, index, seen=seen, **options), kind="stable")
    lazy = allowed if attn.spec.causal and given.get("context") == "cumsum" else allowed / allowed.sum(1, keepdims=True)
    rows = np.array(lazy, dtype=float)
    active = order[: counted(given, len(q), factor)]
    rows[active] = of_scores(scaled(q, k), allowed)[active]
    return rows


def auto(attn, given, head, q, k, allowed):
    chosen = prob if min(len(q), len(k)) >= given.get("crossover", 256) else full
    return chosen(attn.chosen, {"factor": given.get("factor", 5)}, head, q, k, allowed)


FORMULAS = {
    "additive": additive, "auto": auto, "autocorrelation": autocorrelation, "bigbird": bigbird,
    "bigbird_etc": bigbird_etc, "bilinear": bilinear, "dot": dot, "efficient": efficient, "em": em, "etc": etc,
    "fourier": fourier, "full": full, "gated_delta": gated_delta, "hard": hard, "linear": linear,
    "linformer": linformer, "log_sparse": log_sparse, "longformer": longformer, "performer": performer,
    "performer_trig": performer, "pooled": pooled, "prob": prob, "reformer": reformer, "relu": relu,
    "sparse_fixed": sparse, "sparse_strided": sparse, "synthesizer": synthesizer,
    "synthesizer_dense": synthesizer_dense, "taylor": taylor, "topk": topk, "truncated": truncated, "vq": vq,
}  # fmt: skip

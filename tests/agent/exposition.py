"""Reads Prometheus' text exposition format 0.0.4 and takes nothing that is not in its specification."""
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
VALUE = re.compile(r"[+-]?(?:Inf|NaN|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\Z")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
UNESCAPED = {"\\": "\\", '"': '"', "n": "\n"}


class Wrong(Exception):
    pass


def need(condition, sentence, *args):
    if not condition:
        raise Wrong(sentence % args)


def read_labels(text, line):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        need(match, "no label's name in: %s", line)
        at = match.end()
        need(text[at:at + 2] == '="', "no value behind the label in: %s", line)
        at, value = at + 2, ""
        while at < len(text) and text[at] != '"':
            if text[at] == "\\":
                need(text[at + 1:at + 2] in UNESCAPED, "a wrong escape in: %s", line)
                value += UNESCAPED[text[at + 1]]
                at += 2
            else:
                value += text[at]
                at += 1
        need(at < len(text), "a label's value does not end in: %s", line)
        need(match.group() not in labels and not match.group().startswith("__"), "a wrong label in: %s", line)
        labels[match.group()] = value
        at += 1
        need(at == len(text) or text[at] == ",", "no comma behind a label in: %s", line)
        at += 1
    return labels


def read_sample(line):
    match = re.match(r"([^ {]+)(?:\{(.*)\})? ([^ ]+)(?: (-?\d+))?\Z", line)
    need(match, "no sample: %s", line)
    need(NAME.match(match.group(1)), "no metric's name in: %s", line)
    need(VALUE.match(match.group(3)), "no number in: %s", line)
    return match.group(1), read_labels(match.group(2) or "", line), float(match.group(3).replace("Inf", "inf"))


def base_of(name, types):
    for ending in ("_bucket", "_sum", "_count"):
        if name.endswith(ending) and types.get(name[:-len(ending)]) in ("histogram", "summary"):
            return name[:-len(ending)]
    return name


def check_histogram(name, rows):
    series = {}
    for sample, labels, value in rows:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        one = series.setdefault(key, {"buckets": []})
        if sample == name + "_bucket":
            one["buckets"].append((float(labels["le"].replace("Inf", "inf")), value))
        else:
            one[sample[len(name):]] = value
    for one in series.values():
        bounds = [bound for bound, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        need(bounds == sorted(set(bounds)) and bounds[-1] == math.inf, "%s: its buckets: %s", name, bounds)
        need(counts == sorted(counts), "%s: its buckets are not cumulative: %s", name, counts)
        need("_sum" in one and one.get("_count") == counts[-1], "%s: its sum and count: %s", name, one)


def read(text):
    """{metric: (type, help, [(sample's name, labels, value)])}"""
    need(text.endswith("\n"), "the last line does not end")
    metrics, types, helps, seen, current = {}, {}, {}, set(), None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            _, what, name, rest = line.split(" ", 3)
            need(NAME.match(name), "no metric's name in: %s", line)
            need(name not in (types if what == "TYPE" else helps), "said twice: %s", line)
            need(name not in metrics, "said behind its samples: %s", line)
            if what == "TYPE":
                need(rest in TYPES, "no type in: %s", line)
                types[name] = rest
            else:
                need(not re.search(r"\\[^\\n]", rest), "a wrong escape in: %s", line)
                helps[name] = rest
        elif line and not line.startswith("#"):
            sample, labels, value = read_sample(line)
            name = base_of(sample, types)
            need(name in types and name in helps, "without HELP or TYPE: %s", line)
            need(name == current or name not in metrics, "not in one group: %s", line)
            key = (sample, tuple(sorted(labels.items())))
            need(key not in seen, "twice: %s", line)
            seen.add(key)
            need(types[name] != "counter" or value >= 0, "a counter below zero: %s", line)
            metrics.setdefault(name, (types[name], helps[name], []))[2].append((sample, labels, value))
            current = name
    for name, (kind, _, rows) in metrics.items():
        if kind == "histogram":
            check_histogram(name, rows)
    return metrics

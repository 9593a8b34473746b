"""What a run measured, kept group by group, so that a run can be made in parts and taken up again where it was cut off.

A group is kept when it is done: what its programs printed, how busy others were meanwhile, and when, where and at which
commit that was. What is measured again replaces what was kept. The tiny form keeps its own.
"""
import json
import os
import time

from harness import results as results_module

FORM = 1  # of the file; another form is not read


class Kept:
    def __init__(self, folder, quick):
        self.path = os.path.join(folder, "kept.quick.json" if quick else "kept.json")
        self.groups = {}
        self.configuration = []  # of the machine when a group was last measured; a file that has none is of before it was kept

    def load(self):
        try:
            with open(self.path) as f:
                whole = json.load(f)
        except (OSError, ValueError):
            return
        if whole.get("form") == FORM:
            self.groups = whole["groups"]
            self.configuration = [tuple(entry) for entry in whole.get("configuration", [])]

    def save(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path + ".new", "w") as f:
            json.dump({"form": FORM, "configuration": self.configuration, "groups": self.groups}, f, ensure_ascii=False)
        os.replace(self.path + ".new", self.path)

    def has(self, name, configuration, missing=()):
        """The group was measured at this commit, on this machine, with these parameters and peers, and nothing failed."""
        group = self.groups.get(name)
        return (bool(group) and not group["failures"] and group["missing"] == list(missing)
                and same_place(group, dict(configuration)))

    def results(self, names):
        """All that is kept of these groups, in their order."""
        found = results_module.Results()
        for name in names:
            group = self.groups.get(name)
            if not group:
                continue
            for line, noise, turn in group["lines"]:
                found.add(line, noise, turn, name)
            found.missing += [tuple(entry) for entry in group["missing"] if tuple(entry) not in found.missing]
            found.failures += [tuple(entry) for entry in group["failures"]]
            found.groups[name] = {key: group[key] for key in ("commit", "date", "parameters", "seconds", "load", "machine")}
            found.groups[name]["peers"] = group.get("peers", "")
            found.groups[name]["facts"] = {line["fact"]: line["text"] for line, _, _ in group["lines"] if "fact" in line}
        return found


def same_place(group, configuration):
    return (group["commit"] == configuration["commit"] and "uncommitted" not in group["commit"] and group["commit"] != "unknown"
            and group.get("peers", "") == configuration.get("peers", "") and group["parameters"] == configuration["parameters"] and group["machine"] == machine_words(configuration))


def as_measured(kept, configuration, groups):
    """The machine as it was when a group was last measured, with the commits and the last time of all groups: nothing of now."""
    configuration = kept.configuration or configuration
    of_then = {"commit": ", ".join(sorted({group["commit"] for group in groups.values()})),
               "date": max((group["date"] for group in groups.values()), default=""), "load": "beside each group"}
    return [(name, of_then.get(name, words) if groups else words) for name, words in configuration]


def machine_words(configuration):
    return "%s, %s" % (configuration["processor"], configuration["kernel"])


def new_group(configuration):
    """An empty record of a group that is about to be measured."""
    configuration = dict(configuration)
    return {"commit": configuration["commit"], "date": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
            "parameters": configuration["parameters"], "machine": machine_words(configuration),
            "peers": configuration.get("peers", ""), "load": configuration["load"], "seconds": 0, "lines": [], "missing": [], "failures": []}

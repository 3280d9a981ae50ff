"""Writes the roots of the link proof: every public function of the core, as rustdoc sees it, instantiated for every type
that its parameters can be.

    roots.py INSTANCES OUT DOC.json...

What is left out is named in INSTANCES with a reason; a bound or a constant that INSTANCES does not know is an error, so
that a new function is a root or is spoken of. Prints `ROOTS FUNCTIONS` (with and without counting instances apart).
"""

import itertools
import json
import os
import sys
import tomllib


class Unknown(Exception):
    """A function that cannot be made a root from what INSTANCES says."""


class Crate:
    """One crate's public items, by their public paths."""

    def __init__(self, file):
        with open(file, encoding="utf-8") as text:
            self.doc = json.load(text)
        self.index = self.doc["index"]
        self.functions, self.types, self.traits, self.paths = [], [], [], {}
        root = self.index[str(self.doc["root"])]
        self.name = root["name"]
        self.collect(root, root["name"], set())

    def collect(self, module, path, seen):
        """Follows modules and re-exports, the only ways by which a user can name an item."""
        for number in module["inner"]["module"]["items"]:
            item = self.index.get(str(number))
            if item is None or (number, path) in seen:
                continue
            seen.add((number, path))
            kind, inner = next(iter(item["inner"].items()))
            name = item["name"]
            if kind == "use":
                target = self.index.get(str(inner["id"]))
                if target is None or target["crate_id"] != 0:
                    continue
                item, name = target, inner["name"]
                number, (kind, inner) = target["id"], next(iter(target["inner"].items()))
            if kind == "module":
                self.collect(item, f"{path}::{name}", seen)
            elif kind == "function":
                self.functions.append((f"{path}::{name}", inner))
            elif kind in ("struct", "enum", "union", "trait"):
                if str(number) not in self.paths:
                    self.paths[str(number)] = f"{path}::{name}"
                    (self.traits if kind == "trait" else self.types).append(inner)
            elif kind not in ("constant", "static", "type_alias", "assoc_const"):
                raise Unknown(f"{path}::{name}: it is a {kind}, which the proof knows nothing of")


class Writer:
    """Spells paths of one crate's functions for the compiler."""

    def __init__(self, crate, instances, known):
        self.crate, self.instances, self.known = crate, instances, known
        self.roots, self.names, self.left_out = [], set(), set()

    def path(self, number):
        if str(number) in self.crate.paths:
            return self.crate.paths[str(number)]
        path = self.crate.doc["paths"][str(number)]["path"]
        return self.known.get(tuple(path), "::".join(path))

    def type(self, spelled, chosen):
        kind, inner = next(iter(spelled.items()))
        if kind == "resolved_path":
            return self.path(inner["id"]) + self.arguments(inner["args"], chosen)
        if kind == "borrowed_ref":
            return f"&'static {'mut ' if inner['is_mutable'] else ''}{self.type(inner['type'], chosen)}"
        if kind == "generic":
            return chosen[inner]
        if kind == "primitive":
            return inner
        raise Unknown(f"a type that the proof cannot spell: {spelled}")

    def nameless(self, output):
        if "resolved_path" not in output:
            return "impl_trait" in output
        number = str(output["resolved_path"]["id"])
        known = self.crate.doc["paths"].get(number)
        return number not in self.crate.paths and (known is None or known["crate_id"] == 0)

    def arguments(self, arguments, chosen):
        spelled = []
        for argument in (arguments or {}).get("angle_bracketed", {}).get("args", []):
            if "lifetime" in argument:
                spelled.append("'static")
            elif "type" in argument:
                spelled.append(self.type(argument["type"], chosen))
            else:
                constant = argument["const"]["expr"]
                spelled.append(chosen.get(constant, constant))
        return f"<{', '.join(spelled)}>" if spelled else ""

    def choices(self, generics, name, caller=None):
        """What each parameter can be, lifetimes apart: `{parameter: choice}` for every combination."""
        options = {}
        for parameter in generics["params"]:
            kind, inner = next(iter(parameter["kind"].items()))
            if kind == "lifetime":
                continue
            if kind == "const":
                values = self.instances["constants"].get(parameter["name"])
                wanted = f"a constant {parameter['name']}"
            else:
                traits = [bound["trait_bound"]["trait"]["path"].split("::")[-1] for bound in inner["bounds"] if "trait_bound" in bound]
                traits = [found for found in traits if found != "Sized"]
                if inner["is_synthetic"] and caller:
                    continue
                if inner["is_synthetic"]:
                    raise Unknown(f"{name}: a parameter of type `impl {'+'.join(traits)}` cannot be named; [called] names who calls it")
                values = self.instances["bounds"].get("+".join(traits) or parameter["name"])
                wanted = f"a type that is {'+'.join(traits) or 'anything'}"
            if values is None:
                raise Unknown(f"{name}: it is generic over {wanted}, of which `instances.toml` says nothing")
            options[parameter["name"]] = values
        return [dict(zip(options, combination)) for combination in itertools.product(*options.values())]

    def function(self, prefix, name, inner, plain):
        full = f"{plain}::{name}"
        if full in self.instances["exceptions"]["functions"]:
            self.left_out.add(full)
            return
        self.names.add(full)
        caller = self.instances["called"].get(full)
        if not caller and self.nameless(inner["sig"]["output"] or {}):
            raise Unknown(f"{full}: what it returns has no public name; [called] names who calls it and uses that")
        for chosen in self.choices(inner["generics"], full, caller):
            turbofish = f"::<{', '.join(chosen.values())}>" if chosen else ""
            self.roots.append(f"{caller or f'{prefix}::{name}'}{turbofish}")

    def implementation(self, item, of):
        inner = item["inner"]["impl"]
        if inner["is_synthetic"] or inner["blanket_impl"] or inner["is_negative"]:
            return
        trait, methods = inner["trait"], []
        for number in inner["items"]:
            method = self.crate.index.get(str(number))
            if method and "function" in method["inner"]:
                methods.append((method["name"], method["inner"]["function"]))
        if trait:
            name = trait["path"].split("::")[-1]
            if name == "Drop":
                return
            if name in self.instances["exceptions"]["traits"]:
                self.left_out.add(f"trait {name}")
                return
            # What a trait of the core provides is the core's too; what one of std provides is std's.
            local = self.crate.index.get(str(trait["id"]))
            if local and local["crate_id"] == 0:
                for number in local["inner"]["trait"]["items"]:
                    provided = self.crate.index[str(number)]
                    if "function" in provided["inner"] and provided["name"] in inner["provided_trait_methods"]:
                        if provided["name"] not in [known for known, _ in methods]:
                            methods.append((provided["name"], provided["inner"]["function"]))
        for chosen in self.choices(inner["generics"], of):
            spelled = self.type(inner["for"], chosen)
            prefix, plain = f"<{spelled}>", of
            if trait:
                prefix = f"<{spelled} as {self.path(trait['id'])}{self.arguments(trait['args'], chosen)}>"
                plain = f"<{of} as {trait['path']}>"
            for name, method in methods:
                self.function(prefix, name, method, plain)

    def write(self):
        for path, inner in self.crate.functions:
            prefix, name = path.rsplit("::", 1)
            self.function(prefix, name, inner, prefix)
        done = set()
        for inner in self.crate.types:
            for number in inner["impls"]:
                self.block(number, done)
        for inner in self.crate.traits:
            for number in inner["implementations"]:
                self.block(number, done)
        self.drops()

    def block(self, number, done):
        item = self.crate.index.get(str(number))
        if item is None or number in done or item["crate_id"] != 0:
            return
        done.add(number)
        target = item["inner"]["impl"]["for"]
        of = self.path(target["resolved_path"]["id"]) if "resolved_path" in target else "&mut"
        self.implementation(item, of)

    def drops(self):
        """The end of a value is a call that nobody writes."""
        for number, path in self.crate.paths.items():
            inner = next(iter(self.crate.index[number]["inner"].values()))
            if "impls" not in inner:
                continue
            lifetimes = ["'static" for parameter in inner["generics"]["params"] if "lifetime" in parameter["kind"]]
            for chosen in self.choices(inner["generics"], path):
                arguments = ", ".join(lifetimes + list(chosen.values()))
                spelled = f"{path}<{arguments}>" if arguments else path
                self.roots.append(f"core::ptr::drop_in_place::<{spelled}>")


def main(instances_file, out, *docs):
    with open(instances_file, "rb") as text:
        instances = tomllib.load(text)
    crates = [Crate(file) for file in docs]
    # By which path a crate's item can be named in another one's documentation.
    known = {}
    for crate in crates:
        for number, path in crate.paths.items():
            known[tuple(crate.doc["paths"][number]["path"])] = path
    roots, names, left_out = [], set(), set()
    for crate in crates:
        writer = Writer(crate, instances, known)
        writer.write()
        roots += writer.roots
        names |= writer.names
        left_out |= writer.left_out
    setup = instances["setup"]["functions"]
    for wanted in [*instances["exceptions"]["functions"], *instances["called"], *setup]:
        if wanted not in names | left_out:
            raise Unknown(f"{wanted}: `{instances_file}` speaks of it, and there is no such function")
    text = ""
    for table, chosen in (
        ("CAPTURE", [root for root in roots if root not in setup]),
        ("SETUP", [root for root in roots if root in setup]),
    ):
        text += f"pub static {table}: Roots<{len(chosen)}> = Roots([\n"
        text += "".join(f"    {root} as *const (),\n" for root in chosen) + "]);\n"
    # What is as it was is not compiled again.
    if not os.path.exists(out) or open(out, encoding="utf-8").read() != text:
        with open(out, "w", encoding="utf-8") as file:
            file.write(text)
    print(len(roots), len(names))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Unknown as unknown:
        sys.exit(f"not a root: {unknown}")

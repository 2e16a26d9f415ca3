"""Random functions with nested control flow, as text that tracebacks and the rewriter can see."""

from __future__ import annotations

import itertools
import linecache

from hypothesis import strategies as st

NAMES = "abcd"
_numbers = itertools.count()


def expressions():
    atom = st.sampled_from([*NAMES, "1", "2", "-1"])
    return st.builds("{} {} {}".format, atom, st.sampled_from(["+", "-", "^"]), atom)


def conditions(effects):
    simple = st.builds("t({} {} {})".format, st.sampled_from(NAMES), st.sampled_from(["<", ">", "=="]), expressions())
    plain = st.builds("{} {} {}".format, st.sampled_from(NAMES), st.sampled_from(["<", "!="]), st.sampled_from("012"))
    chain = st.builds("{} < {} <= {}".format, *[st.sampled_from(NAMES)] * 3)
    leaf = st.one_of(simple, simple, plain, chain, *([st.just("(log(5) or a > 1)")] if effects else []))
    return st.one_of(
        leaf,
        st.builds("({} and {})".format, leaf, leaf),
        st.builds("({} or {} or {})".format, leaf, leaf, leaf),
        st.builds("not {}".format, leaf),
    )


@st.composite
def statements(draw, depth, in_loop, effects):
    """The lines of one statement."""
    kinds = ["assign", "assign", "augment", "ternary", "tuple"]
    kinds += ["log"] if effects else []
    if depth:
        kinds += ["if", "if", "if", "for", "while", "return", "with", *(["break", "continue"] * in_loop)]
        kinds += ["try", "try", "del", "match"] if effects else []
    kind = draw(st.sampled_from(kinds))
    name, value = draw(st.sampled_from(NAMES)), draw(expressions())

    def block(loop=in_loop):
        return draw(blocks(depth - 1, loop, effects))

    match kind:
        case "assign":
            return [f"{name} = {value}"]
        case "augment":
            return [f"{name} += {value}"]
        case "ternary":
            return [f"{name} = {value} if {draw(conditions(effects))} else {draw(expressions())}"]
        case "tuple":
            return [f"{name}, (*{draw(st.sampled_from(['e', 'f']))},) = {value}, ({draw(expressions())}, 1)"]
        case "log":
            return [f"log({value})"]
        case "break" | "continue":
            return [kind]
        case "return":
            return [f"return {value}"]
        case "del":
            return [f"del {name}", f"{name} = {draw(st.sampled_from(['1', '2']))}"][: draw(st.integers(1, 2))]
        case "if":
            lines = [f"if {draw(conditions(effects))}:", *block()]
            if draw(st.booleans()):
                lines += [f"elif {draw(conditions(effects))}:", *block()]
            return lines + (["else:", *block()] if draw(st.booleans()) else [])
        case "for":
            lines = [f"for {name} in range({draw(st.integers(0, 4))}):", *block(True)]
            return lines + (["else:", *block()] if draw(st.booleans()) else [])
        case "while":
            w = f"w{next(_numbers)}"
            lines = [f"{w} = 0", f"while {w} < 3 and {draw(conditions(effects))}:", f"    {w} += 1", *block(True)]
            return lines + (["else:", *block()] if draw(st.booleans()) else [])
        case "with":
            return [f"with cm({value}):", *block()]
        case "match":
            return [f"match {name}:", "    case 0:", *indented(block()), "    case _:", *indented(block())]
        case _:
            body, handler = block(), block()
            lines = ["try:", *body, f"    1 // {name}", "except ZeroDivisionError:", *handler]
            lines += ["else:", *block()] if draw(st.booleans()) else []
            return lines + (["finally:", f"    log({value})"] if draw(st.booleans()) else [])


@st.composite
def blocks(draw, depth, in_loop, effects):
    size = draw(st.integers(1, 3))
    return indented([line for _ in range(size) for line in draw(statements(depth, in_loop, effects))])


def indented(lines):
    return ["    " + line for line in lines]


@st.composite
def programs(draw, effects):
    """The text of ``def program(a, b, c, d)``; ``t`` marks conditions that the traced side would decide."""
    body = [line for _ in range(draw(st.integers(1, 4))) for line in draw(statements(3, False, effects))]
    last = draw(st.sampled_from(["a, b, c, d, e, f", "a", "b, c", "d"]))  # what is not returned is soon not needed
    return "\n".join(["def program(a, b, c, d):", "    e = f = ()", *indented(body), f"    return {last}"]) + "\n"


def compiled(text, space):
    """The function of a text, with its source known."""
    name = f"<program {next(_numbers)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), space)
    return space["program"]

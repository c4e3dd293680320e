"""Samples for tools/tidy --self-test: each rule fires on the bad ones and is quiet on the good."""

LAYERS = """
base:
gate: base
net: base
proxy: net gate base
cli: base gate net proxy
pure: base gate
asio: net proxy cli
"""

HEAD = '#include "net/x.h"\n'
COMMON = {
    "tools/layers.txt": LAYERS,
    "src/base/CMakeLists.txt": "hg_module(base)\n",
    "src/gate/CMakeLists.txt": "hg_module(gate DEPS base)\n",
    "src/net/CMakeLists.txt": "hg_module(net DEPS base)\n",
    "src/base/time.h": "// time.h: instants.\n#pragma once\n",
    "src/net/x.h": "// x.h: a sample.\n#pragma once\n",
    "src/gate/pool.h": '// pool.h: a sample.\n#pragma once\n#include "base/time.h"\n',
    "src/gate/pool_user.cc": '#include "gate/pool.h"\n',
    "src/net/x_user.cc": HEAD,
}

# (rule that must fire, path, text)
BAD = [
    ("layer", "src/gate/a.cc", '#include "gate/pool.h"\n#include "net/x.h"\n'),
    ("layer", "src/base/a.cc", '#include "base/time.h"\n#include "gate/pool.h"\n'),
    ("layer", "src/gate/CMakeLists.txt", "hg_module(gate DEPS base net)\n"),
    ("layer", "src/extra/CMakeLists.txt", "hg_module(extra DEPS base)\n"),
    ("layer", "tools/layers.txt", LAYERS.replace("base:", "base: gate")),
    ("cmake", "src/gate/CMakeLists.txt", "hg_module(gate)\n"),
    ("cmake", "src/gate/CMakeLists.txt", "add_library(gate)\n"),
    ("cmake", "src/proxy/a.cc", '#include "proxy/a.h"\n'),
    ("include", "src/gate/a.cc", '#include "gate/pool.h"\n#include "pool.h"\n'),
    ("asio", "src/gate/a.cc", '#include "gate/pool.h"\n#include <boost/asio/post.hpp>\n'),
    ("asio", "src/base/a.cc", '#include "base/time.h"\n#include <boost/beast.hpp>\n'),
    ("ban", "src/net/a.cc", HEAD + "auto t = std::chrono::steady_clock::now();\n"),
    ("ban", "src/net/a.cc", HEAD + "std::chrono::system_clock::time_point t;\n"),
    ("ban", "src/net/a.cc", HEAD + "auto t = time(nullptr);\n"),
    ("ban", "src/net/a.cc", HEAD + "std::random_device device;\n"),
    ("ban", "src/net/a.cc", HEAD + "std::mt19937 engine;\n"),
    ("ban", "src/net/a_test.cc", HEAD + "std::this_thread::sleep_for(1s);\n"),
    ("ban", "src/net/a.cc", HEAD + "co_spawn(io, f(), asio::detached);\n"),
    ("ban", "src/net/a.cc", HEAD + "std::thread(f).detach();\n"),
    ("ban", "src/net/a.cc", HEAD + "auto s = std::format(x);\n"),
    ("ban", "src/net/a.cc", HEAD + "#include <format>\n"),
    ("ban", "src/net/a.cc", HEAD + "#include <cassert>\n"),
    ("print", "src/net/a.cc", HEAD + 'std::cout << "x";\n'),
    ("print", "src/net/a.cc", HEAD + 'printf("x");\n'),
    ("using-namespace", "src/net/a.h", "// a.h: a.\n#pragma once\nusing namespace std;\n"),
    ("todo", "src/net/a.cc", HEAD + "// TODO mend this\n"),
    ("columns", "src/net/a.cc", HEAD + "// " + "x" * 100 + "\n"),
    ("blank", "src/net/a.cc", HEAD + "int a; \n"),
    ("pragma-once", "src/net/a.h", "// a.h: a sample.\n"),
    ("header-comment", "src/net/a.h", "#pragma once\n"),
    ("header-comment", "src/net/a.h", "// Some words.\n#pragma once\n"),
    ("dead", "src/net/a.h", "// a.h: a sample.\n#pragma once\n"),
    ("dead", "src/net/a.cc", "int a() { return 1; }\n"),
    ("dead", "tools/forgotten", "#!/bin/sh\n"),
    ("machine", "docs/a.md", "see /home/" + "ada/x\n"),
    ("machine", "docs/a.md", '"resolved"' + ': "https://example.com/a.tgz"\n'),
]

# Statements that g++ 12 miscompiles, or that STYLE bans beside them.
BAD_SHAPES = [
    "if (co_await f()) { g(); }",
    "if (!co_await f()) g();",
    "while (co_await f()) { g(); }",
    "switch (co_await f()) { default: g(); }",
    "if (auto r = g(); co_await f(r)) { g(); }",
    "for (auto x : co_await f()) g(x);",
    "for (int i = 0; co_await f(i); ++i) g();",
    "const int a = b ? co_await f() : 3;",
    "auto r = b ? co_await f() : co_await g();",
    "bool ok = a && co_await f();",
    "bool ok = co_await f() || a;",
    "bool ok = (co_await f()).ok && a;",
    "h(a, b || (co_await f()));",
    "auto r = co_await f([&] { return 1; });",
    "auto r = co_await f([x](int y) { return x + y; });",
    "auto r = co_await f([this]() -> int { return a_; }, 3);",
    "auto r = co_await f(Options{1, 2});",
    "auto r = co_await f(Options{.a = 1});",
    "co_await f({1, 2, 3});",
    "Pair p{co_await f(), 2};",
    "return_value(Pair{co_await f(), 2});",
    "co_return Answer{co_await f()};",
    "co_await asio::async_write(s, std::vector<Buffer>{a, b}, as_result);",
    "if (x) { co_await f(g(Options{1})); }",
]

GOOD_SHAPES = [
    "co_await f();",
    "const auto [ec, n] = co_await from.async_read_some(asio::buffer(chunk), as_result);",
    "auto& [ec, n] = co_await f();",
    "auto&& r = co_await f(a[3], b(c)[1]);",
    "Result<int>&& r = co_await f();",
    "bool ok = co_await f();",
    "if (auto r = co_await f(); !r) co_return fail(r.error());",
    "if (auto r = co_await f(); r && *r > 3) { g(); }",
    "if (a && b) co_await f();",
    "if (a && b) { co_await f(); }",
    "if (a) { co_await f(); } else co_await g();",
    "while (a || b) { auto r = co_await f(); if (!r) break; }",
    "for (auto r = co_await f(); !r; ) g();",
    "for (const auto& x : xs) { co_await f(x); }",
    "auto work = [&]() -> Task<void> { co_await f(); };",
    "auto work = [this, x]() -> Task<Result<int>> { const int r = co_await f(x); co_return r; };",
    "run(io, [](int a) -> Task<int> { co_return co_await f(a); }(3));",
    "group.spawn(\"x\", [](std::shared_ptr<A> a) -> Task<void> { co_await a->f(); });",
    "co_await f(a ? b : c);",
    "auto r = co_await (read() || timeout());",
    "co_return co_await f();",
    "switch (a) { case 1: co_await f(); break; default: co_await g(); }",
    "do { co_await f(); } while (a && b);",
    "try { co_await f(); } catch (...) { g(Options{1}); }",
    "Options o{1, 2}; co_await f(o);",
    "auto x = f([&] { return 1; }); co_await g(x);",
    "co_await f(); auto x = a ? b : c;",
    "// if (co_await f()) in a comment\n",
    "auto s = \"if (co_await f())\"; co_await g();",
    "auto s = R\"(co_await {a} ? b : c)\"; auto t = 1'000'000; co_await g(s, ',', '\"');",
]

GOOD = [
    ("src/base/clock_os.cc", '#include "base/time.h"\nauto t = std::chrono::steady_clock::now();\n'),
    ("src/net/a.cc", HEAD + "// steady_clock::now is banned, and std::cout\n"),
    ("src/net/a.cc", HEAD + 'auto s = "std::cout << system_clock";\n'),
    ("src/net/a.cc", HEAD + "asio::steady_timer timer(io);\n"),
    ("src/net/a.cc", HEAD + "// TODO(boost 1.82): use cancel_after\n"),
    ("src/net/a.cc", HEAD + "std::cout << 1;  // tidy: allow(print) the sample says why\n"),
    ("src/net/a.cc", HEAD + "// tidy: allow(print) the sample says why\nstd::cout << 1;\n"),
    ("src/net/a_test.cc", HEAD + 'auto s = R"(' + "x" * 120 + ')";\n'),
    ("src/net/a.cc", HEAD + "auto t = fmt::format(x); response.time(0); a.printf(x);\n"),
    ("src/cli/main.cc", "std::cout << 1;\n"),
    ("src/base/t.cc", '#include "base/time.h"\nusing namespace std::chrono_literals;\n'),
]


def run(check):
    """Runs every sample; prints what is wrong with the rules themselves."""
    wrong = 0
    baseline = {(f.path, f.rule) for f in check(COMMON)}

    def new_findings(path, text):
        tree = {**COMMON, path: text}
        module = path.split("/")[1]
        if path.startswith("src/") and module in ("cli", "proxy") and path.endswith("main.cc"):
            tree[f"src/{module}/CMakeLists.txt"] = f"hg_module({module})\n"
        return [f for f in check(tree) if (f.path, f.rule) not in baseline]

    def fail(text):
        nonlocal wrong
        wrong += 1
        print(f"tidy --self-test: {text}")

    if baseline:
        fail(f"the common files are not clean: {sorted(baseline)}")
    for rule, path, text in BAD:
        if not any(f.rule == rule for f in new_findings(path, text)):
            fail(f"{rule} does not fire on {path}: {text!r}")
    for path, text in GOOD:
        for finding in new_findings(path, text):
            fail(f"{finding.rule} fires wrongly on {path}: {text!r}: {finding.text}")
    for shape in BAD_SHAPES:
        text = f"{HEAD}Task<int> run() {{\n  {shape}\n}}\n"
        if not any(f.rule == "co_await" and f.line == 3 for f in new_findings("src/net/a.cc", text)):
            fail(f"co_await does not fire on: {shape}")
    for shape in GOOD_SHAPES:
        text = f"{HEAD}Task<int> run() {{\n  {shape}\n}}\n"
        for finding in new_findings("src/net/a.cc", text):
            if finding.rule == "co_await":
                fail(f"co_await fires wrongly on: {shape}: {finding.text}")
    count = len(BAD) + len(GOOD) + len(BAD_SHAPES) + len(GOOD_SHAPES)
    print(f"tidy --self-test: {count - wrong} of {count} samples as expected")
    return 1 if wrong else 0

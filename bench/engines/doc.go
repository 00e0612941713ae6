// Package engines proves Warmpath on real SGLang engines. It has no code of its own: its tests,
// behind the build tag engines, start engines on the CPU with serve.sh, and pairs of a prefill and
// a decode engine with pd.sh, route real traffic to them through bin/warmpath, and compare what the
// router expected of each engine's cache with what the engine reported, and what pairs answer with
// what an engine alone does.
//
//	make test-engines         installs the engines where they are missing (7 GB, once) and runs the tests
//	make test-engines-quick   the same with TestQuick alone, as CI runs
//
// # Concurrency
//
// The tests run one after the other: they share the engines, and an engine's cache is part of what
// they check.
//
// # Ownership
//
// Every process that a test starts dies with the test's process, whatever ends it (see keeper).
package engines

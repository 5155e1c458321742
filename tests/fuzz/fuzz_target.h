// What a fuzz target consists of: a decoder of bytes from outside under its invariants, and the
// inputs that a search for faults begins with. The target NAME_fuzz has two functions:
//   namespace longhaul::fuzz::NAME_fuzz
//     // Decodes one input. Called from one thread; always 0.
//     int TestOneInput(const uint8_t* data, size_t size);
//     // Well-formed inputs, made by the product's own encoders. A few hundred bytes each where
//     // that is possible.
//     std::vector<Seed> Seeds();
// Built by any compiler, one program replays inputs of all targets (replay_main.cc);
// built by the preset "fuzz", each target is a program that libFuzzer drives.
//
// A broken invariant is LH_CHECK: the process stops. Neither function keeps anything between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::fuzz {

struct Seed {
  std::string name;  // [a-z0-9_]: the file's name in the corpus, after "seed-".
  std::string bytes;
};

struct Target {
  std::string name;
  int (*test_one_input)(const uint8_t* data, size_t size);
  std::vector<Seed> (*seeds)();
};

// All of them. The build writes it (longhaul_fuzz_replay).
std::vector<Target> Targets();

}  // namespace longhaul::fuzz

// What a fuzz target consists of: a decoder of bytes from outside under its invariants, and the
// inputs that a search for faults begins with. Each target is one program. Built by g++, as part of
// every build, it replays inputs (replay_main.cc); built by the preset "fuzz", libFuzzer drives it.
//
// A broken invariant is LH_CHECK: the process stops. Neither function keeps anything between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Decodes one input. Called from one thread; always 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace longhaul::fuzz {

struct Seed {
  std::string name;  // [a-z0-9_]: the file's name in the corpus, after "seed-".
  std::string bytes;
};

// Well-formed inputs, made by the product's own encoders. A few hundred bytes each where that is
// possible.
std::vector<Seed> Seeds();

}  // namespace longhaul::fuzz

// The bytes of a file, changed as an input says, and made whole again where the formats have
// digests: a search would never find them by itself, and what lies behind them must hold too.
#pragma once

#include <cstdint>
#include <string>

#include "common/io/filesystem.h"
#include "tests/fuzz/fuzz_input.h"

namespace longhaul::fuzz {

// A small number of changes: a byte or a number somewhere, a cut, more bytes.
//   input: u8 changes, each: u8 what | u32 where | its bytes
void ChangeImage(FuzzInput& input, std::string* image);

// Digests of the frames that begin in a file of a log, and of its header: made right.
void SealLog(uint64_t salt, std::string* image);
// The digest of a snapshot's header.
void SealSnapshot(std::string* image);

std::string ReadImage(FileSystem& fs, const std::string& path);
void WriteImage(FileSystem& fs, const std::string& path, absl::string_view bytes);

}  // namespace longhaul::fuzz

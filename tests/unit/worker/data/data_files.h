// Files of training data for tests, as bytes.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace longhaul {

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  LH_CHECK(file.good(), "a test can write its files");
}

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

template <typename Word>
std::string WordsOf(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    const auto word = static_cast<Word>(value);
    bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return bytes;
}

// One member.
inline std::string Gzip(const std::string& bytes) {
  std::string out(bytes.size() + 1024, '\0');
  z_stream stream = {};
  LH_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  LH_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// One frame.
inline std::string Zstd(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  LH_CHECK(!ZSTD_isError(size), "zstd");
  out.resize(size);
  return out;
}

inline std::string LlmcHeader(int32_t magic, int32_t version, int32_t tokens) {
  std::vector<int64_t> words(256, 0);
  words[0] = magic;
  words[1] = version;
  words[2] = tokens;
  return WordsOf<int32_t>(words);
}

// As Megatron-LM's IndexedDatasetBuilder writes it, one sequence a document.
inline std::string MegatronIndexBytes(const std::vector<int64_t>& sizes, int type, int width) {
  std::string bytes("MMIDIDX\0\0", 9);
  bytes += WordsOf<uint64_t>({1}) + std::string(1, static_cast<char>(type));
  bytes += WordsOf<uint64_t>(
      {static_cast<int64_t>(sizes.size()), static_cast<int64_t>(sizes.size()) + 1});
  bytes += WordsOf<int32_t>(sizes);
  int64_t at = 0;
  for (const int64_t size : sizes) {
    bytes += WordsOf<int64_t>({at});
    at += size * width;
  }
  for (size_t i = 0; i <= sizes.size(); ++i) bytes += WordsOf<int64_t>({static_cast<int64_t>(i)});
  return bytes;
}

}  // namespace longhaul

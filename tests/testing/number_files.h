// Files of numbers for tests: .npy, CSV, gzip, .npz.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/graph/npy.h"

namespace longhaul::testing_support {

inline std::string WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  LH_CHECK(file.good(), "the disk has room");
  return path;
}

template <typename T>
std::string NpyBytes(NpyType type, const std::vector<int64_t>& shape,
                     const std::vector<T>& values) {
  std::string bytes = WriteNpyHeader(type, shape);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

template <typename T>
std::string WriteNpy(const std::string& path, NpyType type, const std::vector<int64_t>& shape,
                     const std::vector<T>& values) {
  return WriteBytes(path, NpyBytes(type, shape, values));
}

inline std::string Gzipped(const std::string& bytes) {
  z_stream stream = {};
  LH_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  std::string out(bytes.size() + 1024, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  LH_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// An archive as numpy.savez (not deflated) or numpy.savez_compressed writes it.
struct ZipFile {
  bool deflated = false;
  std::string bytes, directory;
  int members = 0;

  void Add(const std::string& name, const std::string& content) {
    std::string packed = content;
    if (deflated) {
      // The body of a gzip file.
      packed = Gzipped(content);
      packed = packed.substr(10, packed.size() - 18);
    }
    const auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                                 static_cast<uInt>(content.size())));
    const auto local = static_cast<uint32_t>(bytes.size());
    const auto put = [](std::string& to, auto value) {
      to.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    const auto head = [&](std::string& to) {
      put(to, uint16_t{20});
      put(to, uint16_t{0});
      put(to, static_cast<uint16_t>(deflated ? 8 : 0));
      put(to, uint32_t{0});
      put(to, crc);
      put(to, static_cast<uint32_t>(packed.size()));
      put(to, static_cast<uint32_t>(content.size()));
      put(to, static_cast<uint16_t>(name.size()));
      put(to, uint16_t{0});
    };
    bytes += "PK\x03\x04";
    head(bytes);
    bytes += name + packed;
    directory += "PK\x01\x02";
    put(directory, uint16_t{20});
    head(directory);
    put(directory, uint16_t{0});
    put(directory, uint16_t{0});
    put(directory, uint16_t{0});
    put(directory, uint32_t{0});
    put(directory, local);
    directory += name;
    ++members;
  }
  std::string Take() const {
    std::string end = "PK\x05\x06";
    const auto put = [&end](auto value) {
      end.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    put(uint32_t{0});
    put(static_cast<uint16_t>(members));
    put(static_cast<uint16_t>(members));
    put(static_cast<uint32_t>(directory.size()));
    put(static_cast<uint32_t>(bytes.size()));
    put(uint16_t{0});
    return bytes + directory + end;
  }
};

}  // namespace longhaul::testing_support

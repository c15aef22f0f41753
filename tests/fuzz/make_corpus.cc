#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "reader.h"

namespace {

void write(const std::filesystem::path& path, const uroce::captures::Frame& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

// Writes the golden captures into a folder, as libFuzzer wants its seeds: every frame as a file, or every
// capture as a stream of frames, each behind two bytes of length.
int main(int argc, char** argv) try {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: make_corpus FOLDER [streams]\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const auto& file : uroce::captures::files()) {
    int number = 0;
    uroce::captures::Frame stream;
    for (const uroce::captures::Frame& frame : uroce::captures::frames(file)) {
      if (argc == 2) write(folder / (file.stem().string() + '_' + std::to_string(++number)), frame);
      stream.push_back(static_cast<std::byte>(frame.size() >> 8));
      stream.push_back(static_cast<std::byte>(frame.size()));
      stream.insert(stream.end(), frame.begin(), frame.end());
    }
    if (argc == 3) write(folder / file.stem(), stream);
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "make_corpus: " << error.what() << '\n';
  return 1;
}

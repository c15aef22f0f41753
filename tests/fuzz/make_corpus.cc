#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "reader.h"

// Writes every frame of the golden captures into a folder of its own file each, as libFuzzer wants its seeds.
int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: make_corpus FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const auto& file : uroce::captures::files()) {
    int number = 0;
    for (const uroce::captures::Frame& frame : uroce::captures::frames(file)) {
      std::ofstream out(folder / (file.stem().string() + '_' + std::to_string(++number)), std::ios::binary);
      out.write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
      if (!out.flush()) throw std::runtime_error("cannot write to " + folder.string());
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "make_corpus: " << error.what() << '\n';
  return 1;
}

#!/usr/bin/env python3
"""Makes a file the value of a constant: drivers/port/xdp/embed.py FILE > HEADER"""

import sys
from pathlib import Path

print('#pragma once\n\nnamespace uroce::drivers {\n\n/// The XDP program, as clang compiled it (roce.bpf.c).\n'
      'alignas(8) inline constexpr unsigned char kXdpObject[] = {')
data = Path(sys.argv[1]).read_bytes()
for first in range(0, len(data), 32):
    print(''.join(f'{byte},' for byte in data[first:first + 32]))
print('};\n\n}  // namespace uroce::drivers')

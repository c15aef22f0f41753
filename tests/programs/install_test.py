#!/usr/bin/env python3
"""An installation works from where it was put, by itself, and leaves the system's verbs library alone.

    tests/programs/install_test.py BUILD_FOLDER LIBDIR
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import programs

BUILD = pathlib.Path(sys.argv[1]).resolve()
LIBDIR = sys.argv[2]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {key: value for key, value in os.environ.items()
               if not key.startswith("UROCE_") and key != "LD_LIBRARY_PATH"}
# Below the prefix; {libdir} is the one that was configured.
INSTALLED = {"bin/uroce", *(f"libexec/uroce/uroce-{name}" for name in ("decode", "dump", "exporter", "info", "mem", "nvmf", "perf", "serve", "top")), "{libdir}/uroce/libibverbs.so", "{libdir}/uroce/libibverbs.so.1", "{libdir}/uroce/liburoce.so",
             "{libdir}/uroce/librdmacm.so", "{libdir}/uroce/librdmacm.so.1",
             "{libdir}/uroce/liburoce.so.0", "{libdir}/uroce/liburocedv.so", "{libdir}/uroce/liburocedv.so.1",
             "include/infiniband/urocedv.h", "{libdir}/pkgconfig/uroce.pc", "{libdir}/pkgconfig/urocedv.pc",
             "share/man/man1/uroce.1", "share/bash-completion/completions/uroce", "share/zsh/site-functions/_uroce",
             *(f"share/man/man3/{name}" for name in subprocess.run(
                 [sys.executable, str(SOURCE / "lib/verbs/faces/manual.py"),
                  str(SOURCE / "lib/verbs/include/infiniband/urocedv.h"), "--names"],
                 capture_output=True, text=True, check=True).stdout.split()),
             "share/doc/uroce/LICENSE", "share/doc/uroce/README.md",
             *(f"share/uroce/configs/{path}" for path in (each.relative_to(SOURCE / "configs") for each in (SOURCE / "configs").rglob("*")
                                                          if each.is_file()) if path.parts[0] not in ("debian", "package"))}
# Two devices in each process, for programs that are to show all of their configuration.
EMBEDDED = SOURCE / "configs/embedded.toml"

# Tells whose verbs it is linked with.
PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void) {
  Dl_info where;
  int count = 0;
  struct ibv_device** devices = ibv_get_device_list(&count);
  if (devices == 0 || dladdr((void*)&ibv_get_device_list, &where) == 0) return 1;
  printf("%d %s\\n", count, where.dli_fname);
  return 0;
}
"""

# Uses what the extensions offer.
DV_PROGRAM = """
#include <infiniband/urocedv.h>
#include <stdio.h>
int main(void) {
  struct urocedv_device_attr attr = {0};
  struct ibv_context* context = ibv_open_device(ibv_get_device_list(0)[0]);
  if (context == 0 || urocedv_query_device(context, &attr) != 0) return 1;
  puts("extensions");
  return ibv_close_device(context);
}
"""


def output_of(*command, **more):
    """What a command says that ends well."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=dict(ENVIRONMENT, **more.pop("env", {})), **more)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Installation:
    def __init__(self, prefix, libdir):
        self.prefix = pathlib.Path(prefix)
        self.libdir = libdir
        self.libraries = self.prefix / libdir / "uroce"
        self.uroce = self.prefix / "bin/uroce"

    def files(self):
        return {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if not path.is_dir()}

    def start(self, configuration, command):
        return subprocess.Popen([str(self.uroce), "run", "--config", str(configuration), "--", *command], text=True,
                                env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)


class Works:
    """What every installation must do. `place` is set by those that put one somewhere."""

    place = None

    def test_its_files_are_these_and_no_others(self):
        self.assertEqual(self.place.files(), {path.format(libdir=self.place.libdir) for path in INSTALLED})

    def test_a_program_gets_its_libraries(self):
        loaded = output_of(self.place.uroce, "run", "--", "env", "LD_TRACE_LOADED_OBJECTS=1", shutil.which("ibv_devinfo"))
        for name in ("libibverbs.so.1", "liburoce.so.0"):
            self.assertEqual(pathlib.Path(re.search(rf"{name} => (.*) \(0x", loaded)[1]).resolve(),
                             (self.place.libraries / name).resolve())
        self.assertNotIn(str(BUILD), loaded)
        self.assertIn("uroce1", output_of(self.place.uroce, "run", "--config", EMBEDDED, "--", "ibv_devinfo", "-v"))

    def test_without_it_a_program_gets_the_systems(self):
        loaded = output_of("env", "LD_TRACE_LOADED_OBJECTS=1", shutil.which("ibv_devinfo"))
        self.assertNotIn("uroce", loaded)

    def test_its_own_commands_use_its_libraries(self):
        told = output_of(self.place.uroce, "info")
        self.assertEqual(pathlib.Path(re.search(r"verbs library +(.*)", told)[1]).resolve(),
                         (self.place.libraries / "libibverbs.so.1").resolve())
        figures = output_of(self.place.uroce, "perf", "--size", "1,5000", "--iterations", "50", "--quiet")
        self.assertIn("verified", figures)

    def test_every_installed_configuration_is_read(self):
        for path in sorted((self.place.prefix / "share/uroce/configs").glob("*.toml")):
            output_of(self.place.uroce, "run", "--config", path, "--", "true")

    def test_pingpong_by_the_installed_configurations(self):
        with tempfile.TemporaryDirectory(prefix="uroce-install-") as folder:
            configurations = {}
            for role in ("server", "client"):
                text = (self.place.prefix / f"share/uroce/configs/memif-{role}.toml").read_text()
                own = text.replace("/tmp/uroce-memif.sock", folder + "/link")
                self.assertNotEqual(own, text)
                configurations[role] = pathlib.Path(folder, role)
                configurations[role].write_text(own)
            port = programs.free_tcp_port()
            command = ["ibv_rc_pingpong", "-c", "-g", "1", "-p", str(port)]
            processes = [self.place.start(configurations["server"], command)]
            try:
                programs.wait_until(lambda: programs.listens(port), processes[0])
                processes.append(self.place.start(configurations["client"], [*command, "127.0.0.1"]))
                for process in processes:
                    status, output = programs.finish(process)
                    self.assertEqual(status, 0, output)
                    self.assertIn("1000 iters", output)
            finally:
                for process in processes:
                    process.kill()
                    process.communicate()

    def test_a_program_can_be_linked_with_it(self):
        if shutil.which("pkg-config") is None or shutil.which("cc") is None:
            self.skipTest("pkg-config or cc is not installed")
        described = {"PKG_CONFIG_PATH": str(self.place.prefix / self.place.libdir / "pkgconfig")}
        self.assertEqual(pathlib.Path(output_of("pkg-config", "--variable=configs", "uroce", env=described).strip()
                                      .replace("\\", "")).resolve(),
                         (self.place.prefix / "share/uroce/configs").resolve())
        version = output_of("pkg-config", "--modversion", "uroce", env=described).strip()
        self.assertEqual(output_of(self.place.uroce, "--version").split()[1], version)
        flags = shlex.split(output_of("pkg-config", "--cflags", "--libs", "uroce", env=described))
        with tempfile.TemporaryDirectory(prefix="uroce-install-") as folder:
            source, program = pathlib.Path(folder, "program.c"), pathlib.Path(folder, "program")
            source.write_text(PROGRAM)
            output_of("cc", source, "-o", program, *flags)
            count, library = output_of(program, env={"UROCE_CONFIG": str(EMBEDDED)}).split(" ", 1)
            self.assertEqual(count, "2")
            self.assertEqual(pathlib.Path(library.strip()).resolve(), (self.place.libraries / "libibverbs.so.1").resolve())
            flags = shlex.split(output_of("pkg-config", "--cflags", "--libs", "urocedv", env=described))
            source.write_text(DV_PROGRAM)
            output_of("cc", "-Wall", "-Werror", source, "-o", program, *flags)
            self.assertEqual(output_of(program, env={"UROCE_CONFIG": str(EMBEDDED)}), "extensions\n")

    def test_the_man_page_is_found(self):
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        page = output_of("man", "--where", "uroce", env={"MANPATH": str(self.place.prefix / "share/man")})
        self.assertEqual(page.strip(), str(self.place.prefix / "share/man/man1/uroce.1"))


class StrippedStagedAndMoved(Works, unittest.TestCase):
    """As packages are made: into DESTDIR, stripped, and used from yet another place."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="uroce-install-")
        cls.addClassCleanup(cls.folder.cleanup)
        stage = pathlib.Path(cls.folder.name, "stage")
        output_of("meson", "install", "-C", BUILD, "--no-rebuild", "--strip", "--destdir", stage)
        prefix = next(path for path in stage.rglob("bin/uroce")).parents[1]
        moved = pathlib.Path(cls.folder.name, "another place")
        prefix.rename(moved)
        cls.place = Installation(moved, LIBDIR)

    def test_it_is_stripped(self):
        for path in (self.place.uroce, self.place.libraries / "liburoce.so.0"):
            self.assertNotIn(".symtab", output_of("readelf", "--section-headers", "--wide", path))


class OrdinaryWithALibraryFolderOfItsOwn(Works, unittest.TestCase):
    """`meson install` into its very prefix, with --libdir=lib."""

    @classmethod
    def setUpClass(cls):
        if shutil.which("ccache") is None:
            raise unittest.SkipTest("another libdir is another build, and without ccache that takes too long")
        # Beside the build folder and with its options: ccache knows all of it.
        build = BUILD.with_name(BUILD.name + "-install")
        prefix = pathlib.Path(tempfile.mkdtemp(prefix="uroce-install-"))
        cls.addClassCleanup(shutil.rmtree, prefix)
        shutil.rmtree(build, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, build, ignore_errors=True)
        output_of("meson", "setup", build, SOURCE, f"--prefix={prefix}", "--libdir=lib", "-Dtests=false", "-Dperf=false", "-Dwerror=true",
                  env={"CC": "ccache gcc", "CXX": "ccache g++"})
        output_of("ninja", "-C", build)
        output_of("meson", "install", "-C", build, "--no-rebuild")
        # What works now does so without the build.
        shutil.rmtree(build)
        cls.place = Installation(prefix, "lib")


class Incomplete(unittest.TestCase):
    def test_missing_libraries_are_named(self):
        with tempfile.TemporaryDirectory(prefix="uroce-install-") as folder:
            output_of("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder)
            uroce = next(pathlib.Path(folder).rglob("bin/uroce"))
            gone = uroce.parents[1] / LIBDIR / "uroce"
            shutil.rmtree(gone)
            done = subprocess.run([str(uroce), "run", "--", "true"], capture_output=True, text=True, env=ENVIRONMENT)
            # The loader itself complains where there is no other libibverbs.so.1.
            if done.returncode == 127:
                self.assertIn("libibverbs.so.1", done.stderr)
                return
            self.assertEqual((done.returncode, done.stdout), (126, ""))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(str(gone / "libibverbs.so.1"), done.stderr)

    def test_the_build_works_uninstalled(self):
        self.assertIn("uroce1", output_of(BUILD / "apps/uroce", "run", "--config", EMBEDDED, "--", "ibv_devinfo"))
        self.assertIn(str(BUILD / "lib/verbs"), output_of(BUILD / "apps/uroce", "info"))


if __name__ == "__main__":
    missing = [name for name in ("ibv_devinfo", "ibv_rc_pingpong", "meson", "ninja") if shutil.which(name) is None]
    if missing:
        print(f"SKIPPED, not installed: {', '.join(missing)}")
        sys.exit(programs.SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)

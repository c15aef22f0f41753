"""The files of a checkout."""
import pathlib
import subprocess


def files_of(root):
    """All that are not ignored, relative to `root`; in a tree without git, all but builds and hidden ones."""
    listed = subprocess.run(['git', '-c', f'safe.directory={root}', '-C', str(root), 'ls-files', '-co', '--exclude-standard'],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        return [pathlib.Path(f) for f in listed.stdout.splitlines() if (root / f).is_file()]
    found = (p.relative_to(root) for p in root.rglob('*') if p.is_file())
    return [p for p in found if not p.parts[0].startswith(('build', '.'))]

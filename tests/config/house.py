"""A home and a project that exist for one test only."""

from pathlib import Path

from vegakit.config import Settings, folder_content, load, trust_folder


class House:
    """Writes the user's file and the project's file, and loads settings as seen from there."""

    def __init__(self, root: Path) -> None:
        self.home = root.resolve() / "home"
        self.project = self.home / "code" / "project"
        self.config_dir = self.home / ".config" / "vega"
        self.environment = {"HOME": str(self.home), "VEGA_TRUSTED_FOLDERS": str(self.home)}
        self.project.mkdir(parents=True)
        self.config_dir.mkdir(parents=True)

    def user(self, text: str) -> Path:
        return _written(self.config_dir / "vega.toml", text)

    def write(self, text: str) -> Path:
        return _written(self.project / "vega.toml", text)

    def load(self, flags: dict[str, object] | None = None, **environment: str) -> Settings:
        variables = {**self.environment, **environment}
        return load(flags or {}, environment=variables, directory=self.project)

    def trust(self, folder: Path | None = None) -> None:
        content = folder_content(folder or self.project, environment=self.environment)
        trust_folder(content.folder, content.starts, self.environment)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path

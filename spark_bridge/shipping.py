"""Bring this package to the executors if the driver has it from a wheel."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

import gpuengine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship_package(spark: SparkSession) -> None:
    """Make tasks that start from now on find this package, if it was loaded from a wheel on ``--py-files``.

    Spark copies a wheel to the executors, but only puts files that are named .zip, .egg or .jar on the path
    of their Python: a copy by such a name goes with it. Does so once for each application.
    """
    archive = getattr(gpuengine.__spec__.loader, "archive", None) if gpuengine.__spec__ else None
    context: Any = spark.sparkContext
    if archive is None or Path(archive).suffix in context.PACKAGE_EXTENSIONS:
        return
    name = f"{Path(archive).stem}.zip"
    if name in context._python_includes:
        return
    # Executors fetch it from where it was added, so it must stay: in a folder that Spark removes in the end.
    copy = Path(context._temp_dir) / name
    copyfile(archive, copy)
    context.addPyFile(str(copy))

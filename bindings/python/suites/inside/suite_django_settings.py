"""Settings of Django's own tests: both databases are files."""

import os

_folder = os.environ["SUITE_FILES"]
DATABASES = {
    alias: {
        "ENGINE": os.environ["SUITE_ENGINE"],
        "NAME": os.path.join(_folder, f"{alias}.db"),
        "TEST": {"NAME": os.path.join(_folder, f"test_{alias}.db")},
    }
    for alias in ("default", "other")
}
SECRET_KEY = "for tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "suite_results.DjangoRunner"

"""Settings: one table is the truth for a setting's name, type, default, bounds, topic-level name and documentation."""

from ottla.config.cleaner import CleanerConfig
from ottla.config.log import CleanupPolicy, LogConfig
from ottla.config.table import ConfigTable, Setting

__all__ = ["CleanerConfig", "CleanupPolicy", "ConfigTable", "LogConfig", "Setting"]

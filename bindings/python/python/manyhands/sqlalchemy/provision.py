"""What SQLAlchemy's compliance suite asks of a dialect: as for its own SQLite drivers."""

from sqlalchemy.dialects.sqlite import provision

provision._drivernames.update({"manyhands", "aiomanyhands"})

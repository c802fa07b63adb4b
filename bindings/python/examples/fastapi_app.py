"""FastAPI and SQLAlchemy: orders that take from a stock.

    DATABASE_URL=sqlite+manyhands:////srv/app.db uvicorn fastapi_app:app

Written for stock SQLite; the URL alone chooses the driver.
"""

import os

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import CheckConstraint, create_engine, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

engine = create_engine(os.environ["DATABASE_URL"])
SessionOfRequest = sessionmaker(engine)


class Base(DeclarativeBase):
    """Of all tables."""


class Product(Base):
    """What can be ordered."""

    __tablename__ = "product"
    __table_args__ = (CheckConstraint("in_stock >= 0"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    in_stock: Mapped[int]


class Order(Base):
    """One piece of a product."""

    __tablename__ = "order"
    id: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[int]
    customer: Mapped[str]


def session():
    """A session for a request."""
    with SessionOfRequest() as open_session:
        yield open_session


Base.metadata.create_all(engine)
with SessionOfRequest.begin() as first:
    if first.get(Product, 1) is None:
        first.add(Product(id=1, in_stock=1_000_000))

app = FastAPI()


@app.post("/order/{product_id}")
def order(product_id: int, customer: str, session: Session = Depends(session)) -> dict:
    """Takes a piece from the stock and notes the order, or neither."""
    if session.get(Product, product_id) is None:
        raise HTTPException(404, "there is no such product")
    new = Order(product_id=product_id, customer=customer)
    session.add(new)
    session.execute(update(Product).where(Product.id == product_id).values(in_stock=Product.in_stock - 1))
    try:
        session.commit()
    except IntegrityError:
        raise HTTPException(409, "sold out") from None
    return {"order": new.id}


@app.get("/report")
def report(session: Session = Depends(session)) -> dict:
    """What is in stock and what was ordered."""
    (in_stock,) = session.execute(select(func.sum(Product.in_stock))).one()
    (orders,) = session.execute(select(func.count(Order.id))).one()
    return {"in_stock": in_stock, "orders": orders}

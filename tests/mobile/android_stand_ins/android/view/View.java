package android.view;

public class View {
    public int x;
    public int y;
    public int width;
    public int height;

    public View(int x, int y, int width, int height) {
        this.x = x;
        this.y = y;
        this.width = width;
        this.height = height;
    }

    public final int getWidth() {
        return width;
    }

    public final int getHeight() {
        return height;
    }

    public void getLocationInWindow(int[] outLocation) {
        outLocation[0] = x;
        outLocation[1] = y;
    }

    public WindowInsets getRootWindowInsets() {
        return new WindowInsets();
    }
}
